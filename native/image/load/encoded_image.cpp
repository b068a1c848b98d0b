#include "image/load/encoded_image.h"

#include <limits>
#include <memory>
#include <utility>

#include "core/media_error.h"
#include "ffmpeg/ffmpeg_frame.h"
#include "ffmpeg/filter_graph.h"
#include "ffmpeg/packed_frame.h"
#include "image/load/image_reader.h"
#include "image/load/resized_picture.h"

namespace spdl {
namespace {

constexpr std::int64_t kAnyPixels = std::numeric_limits<std::int64_t>::max();
constexpr AVRational kImageTimeBase{1, 25};  // What FFmpeg's image demuxers count in.

Rational rational(AVRational value) {
    return {value.num, value.den};
}

}  // namespace

EncodedImage::EncodedImage(std::shared_ptr<const void> owner, Bytes bytes, const DemuxOptions& options) {
    if (is_jpeg(bytes) && !options.need_ffmpeg()) {
        // Nothing is allocated for the size that it claims; what is too large is refused when it is decoded.
        const JpegHeader header = thread_scratch().jpeg.read_header(bytes, {kAnyPixels, false});
        info_ = {"mjpeg", header.size, header.pixel_format, rational(kImageTimeBase), {0, 1}};
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
                 rational(packet_->time_base),
                 rational(frame->sample_aspect_ratio)};
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
        std::unique_ptr<Frame> frame = resized_picture(reader, options, make_packed_frame, scratch);
        frame->set_properties({0, rational(time_base()), {}});
        return {std::move(frame), Backend::kTurbo};
    }
    FramePtr stored = decode_stored(decode);
    const FrameProperties properties = FfmpegFrame(reference(*stored), time_base()).properties();
    ImageReader reader(std::move(stored), Orientation(), scratch);
    std::unique_ptr<Frame> frame = resized_picture(reader, options, make_packed_frame, scratch);
    frame->set_properties(properties);
    return {std::move(frame), Backend::kFfmpeg};
}

DecodedImage EncodedImage::decode_filtered(const std::string& filters, const DecodeOptions& options) const {
    FramePtr frame = decode_stored(options);
    if (!filters.empty()) {
        frame = filter_frame(*frame, time_base(), filters);
    }
    return {std::make_unique<FfmpegFrame>(std::move(frame), time_base()), Backend::kFfmpeg};
}

}  // namespace spdl
