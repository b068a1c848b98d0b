#include "image/load/encoded_image.h"

#include <limits>
#include <new>
#include <utility>

#include "core/media_error.h"
#include "ffmpeg/filter_graph.h"
#include "image/load/image_reader.h"
#include "image/load/resized_picture.h"

namespace spdl {
namespace {

constexpr std::int64_t kAnyPixels = std::numeric_limits<std::int64_t>::max();
constexpr AVRational kImageTimeBase{1, 25};  // What FFmpeg's image demuxers count in.

}  // namespace

std::size_t DecodedImage::bytes() const {
    std::size_t size = 0;
    for (const AVBufferRef* const plane : frame->buf) {
        size += plane == nullptr ? 0 : plane->size;
    }
    return size;
}

EncodedImage::EncodedImage(std::shared_ptr<const void> owner, Bytes bytes, const DemuxOptions& options) {
    if (is_jpeg(bytes) && !options.need_ffmpeg()) {
        // Nothing is allocated for the size that it claims; what is too large is refused when it is decoded.
        const JpegHeader header = thread_scratch().jpeg.read_header(bytes, {kAnyPixels, false});
        info_ = {"mjpeg", header.size, header.pixel_format, kImageTimeBase, {0, 1}};
        owner_ = std::move(owner);
        bytes_ = bytes;
    } else {
        packet_ = demux_picture(bytes, options);
    }
}

std::size_t EncodedImage::bytes() const {
    return packet_ ? static_cast<std::size_t>(packet_->packet->size) : bytes_.size();
}

AVRational EncodedImage::time_base() const {
    return packet_ ? packet_->time_base : kImageTimeBase;
}

const CodecInfo& EncodedImage::info() const {
    std::call_once(examined_, [this] {
        if (!packet_) {
            return;
        }
        const FramePtr frame = decode_stored({});
        const char* const format = av_get_pix_fmt_name(static_cast<AVPixelFormat>(frame->format));
        info_ = {avcodec_get_name(packet_->parameters->codec_id),
                 {frame->width, frame->height},
                 format == nullptr ? "unknown" : format,
                 packet_->time_base,
                 frame->sample_aspect_ratio};
    });
    return info_;
}

FramePtr EncodedImage::decode_stored(const DecodeOptions& options) const {
    if (options.backend == Backend::kTurbo) {
        throw MediaError("libjpeg-turbo decodes JPEG only, without FFmpeg's options and filters, but was asked for");
    }
    if (packet_) {
        return decode_picture(*packet_, options);
    }
    return decode_picture(whole_packet(bytes_, AV_CODEC_ID_MJPEG), options);
}

DecodedImage EncodedImage::decode_resized(const LoadOptions& options, const DecodeOptions& decode) const {
    ThreadScratch& scratch = thread_scratch();
    if (!packet_ && !decode.need_ffmpeg()) {
        ImageReader reader(bytes_, {}, decode, false, scratch);
        return {resized_picture(reader, options, scratch), time_base(), Backend::kTurbo};
    }
    FramePtr stored = decode_stored(decode);
    const FramePtr properties = reference(*stored);
    ImageReader reader(std::move(stored), Orientation(), scratch);
    FramePtr frame = resized_picture(reader, options, scratch);
    if (av_dict_copy(&frame->metadata, properties->metadata, 0) < 0) {
        throw std::bad_alloc();
    }
    frame->pts = properties->pts;
    return {std::move(frame), time_base(), Backend::kFfmpeg};
}

DecodedImage EncodedImage::decode_filtered(const std::string& filters, const DecodeOptions& options) const {
    FramePtr frame = decode_stored(options);
    if (!filters.empty()) {
        frame = filter_frame(*frame, time_base(), filters);
    }
    return {std::move(frame), time_base(), Backend::kFfmpeg};
}

}  // namespace spdl
