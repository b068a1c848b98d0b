#include "image/encoded_image.h"

#include <new>
#include <utility>

#include "ffmpeg/filter_graph.h"
#include "image/image_reader.h"
#include "image/write_image.h"

namespace spdl {
namespace {

constexpr AVRational kImageTimeBase{1, 25};  // What FFmpeg's image demuxers count in.

bool plain(const DemuxOptions& options) {
    return options.format.empty() && options.format_options.empty() && options.bsf.empty();
}

bool plain(const DecodeOptions& options) {
    return options.decoder.empty() && options.decoder_options.empty();
}

FramePtr make_rgb24(Size size) {
    FramePtr frame = make_frame();
    frame->format = AV_PIX_FMT_RGB24;
    frame->width = size.width;
    frame->height = size.height;
    frame->pts = 0;
    frame->linesize[0] = 3 * size.width;
    // Without av_frame_get_buffer's gaps between rows, the frame can become an array as it is.
    frame->buf[0] = av_buffer_alloc(rgb_bytes(size));
    if (frame->buf[0] == nullptr) {
        throw std::bad_alloc();
    }
    frame->data[0] = frame->buf[0]->data;
    frame->extended_data = frame->data;
    return frame;
}

FramePtr resized(ImageReader& reader, const Resize& resize, ThreadScratch& scratch) {
    const Placement placement = place(reader.size(), resize.target, resize.fit);
    check_size(placement.canvas, "an output size");
    FramePtr frame = make_rgb24(placement.canvas);
    write_image(reader, placement, resize.interpolation, frame->data[0], scratch);
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
    if (is_jpeg(bytes) && plain(options)) {
        const JpegHeader header = thread_scratch().jpeg.read_header(bytes);
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
    if (packet_) {
        return decode_picture(*packet_, options);
    }
    return decode_picture(whole_packet(bytes_, AV_CODEC_ID_MJPEG), options);
}

DecodedImage EncodedImage::decode_resized(const Resize& resize, const DecodeOptions& options) const {
    ThreadScratch& scratch = thread_scratch();
    if (!packet_ && plain(options)) {
        ImageReader reader(bytes_, scratch);
        return {resized(reader, resize, scratch), time_base()};
    }
    FramePtr stored = decode_stored(options);
    const FramePtr properties = reference(*stored);
    ImageReader reader(std::move(stored), scratch);
    FramePtr frame = resized(reader, resize, scratch);
    if (av_dict_copy(&frame->metadata, properties->metadata, 0) < 0) {
        throw std::bad_alloc();
    }
    frame->pts = properties->pts;
    return {std::move(frame), time_base()};
}

DecodedImage EncodedImage::decode_filtered(const std::string& filters, const DecodeOptions& options) const {
    FramePtr frame = decode_stored(options);
    if (!filters.empty()) {
        frame = filter_frame(*frame, time_base(), filters);
    }
    return {std::move(frame), time_base()};
}

}  // namespace spdl
