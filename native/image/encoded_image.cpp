#include "image/encoded_image.h"

#include <limits>
#include <new>
#include <utility>

#include "core/media_error.h"
#include "ffmpeg/filter_graph.h"
#include "image/image_reader.h"
#include "image/write_image.h"

namespace spdl {
namespace {

constexpr std::int64_t kAnyPixels = std::numeric_limits<std::int64_t>::max();
constexpr AVRational kImageTimeBase{1, 25};  // What FFmpeg's image demuxers count in.

AVPixelFormat frame_format(Channels channels) {
    switch (channels) {
        case Channels::kBgr:
            return AV_PIX_FMT_BGR24;
        case Channels::kGray:
            return AV_PIX_FMT_GRAY8;
        case Channels::kRgb:
            break;
    }
    return AV_PIX_FMT_RGB24;
}

FramePtr make_picture(Size size, const ArrayFormat& format) {
    FramePtr frame = make_frame();
    frame->format = frame_format(format.channels());
    frame->width = size.width;
    frame->height = size.height;
    frame->pts = 0;
    frame->linesize[0] = channel_count(format.channels()) * size.width;
    // Without av_frame_get_buffer's gaps between rows, the frame can become an array as it is.
    frame->buf[0] = av_buffer_alloc(format.image_bytes(size));
    if (frame->buf[0] == nullptr) {
        throw std::bad_alloc();
    }
    frame->data[0] = frame->buf[0]->data;
    frame->extended_data = frame->data;
    return frame;
}

FramePtr resized(ImageReader& reader, const Request& request, ThreadScratch& scratch) {
    const View view{whole(reader.shape().upright()), false};
    const ImagePlan plan = plan_image(reader.shape(), request, view);
    FramePtr frame = make_picture(plan.canvas, request.format);
    write_image(reader, plan, request.format, frame->data[0], scratch);
    return frame;
}

}  // namespace

std::size_t DecodedImage::bytes() const {
    std::size_t size = 0;
    if (frame) {
        for (const AVBufferRef* const plane : frame->buf) {
            size += plane == nullptr ? 0 : plane->size;
        }
    }
    return size;
}

EncodedImage::EncodedImage(std::shared_ptr<const void> owner, Bytes bytes, const DemuxOptions& options) {
    if (is_jpeg(bytes) && options.leave_jpeg()) {
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

DecodedImage EncodedImage::decode_resized(const Request& request, const DecodeOptions& options) const {
    ThreadScratch& scratch = thread_scratch();
    if (!packet_ && options.leave_jpeg()) {
        ImageReader reader(bytes_, {}, options, false, scratch);
        return {resized(reader, request, scratch), time_base(), Backend::kTurbo};
    }
    FramePtr stored = decode_stored(options);
    const FramePtr properties = reference(*stored);
    ImageReader reader(std::move(stored), Orientation(), scratch);
    FramePtr frame = resized(reader, request, scratch);
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
