#include "ffmpeg/packed_frame.h"

#include <new>
#include <utility>

#include "ffmpeg/ffmpeg_frame.h"

namespace spdl {
namespace {

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

std::unique_ptr<Frame> frame_without_gaps(Size size, AVPixelFormat format, std::size_t row_bytes, std::size_t bytes) {
    FramePtr frame = make_frame();
    frame->format = format;
    frame->width = size.width;
    frame->height = size.height;
    frame->pts = 0;
    frame->color_range = AVCOL_RANGE_JPEG;
    frame->linesize[0] = static_cast<int>(row_bytes);
    // Not av_frame_get_buffer, which leaves gaps between rows. Filters may read a little beyond the last row.
    frame->buf[0] = av_buffer_alloc(bytes + AV_INPUT_BUFFER_PADDING_SIZE);
    if (frame->buf[0] == nullptr) {
        throw std::bad_alloc();
    }
    frame->data[0] = frame->buf[0]->data;
    frame->extended_data = frame->data;
    return std::make_unique<FfmpegFrame>(std::move(frame));
}

}  // namespace

std::unique_ptr<Frame> make_packed_frame(Size size, const ArrayFormat& format) {
    const std::size_t row_bytes = static_cast<std::size_t>(channel_count(format.channels()) * size.width);
    return frame_without_gaps(size, frame_format(format.channels()), row_bytes, format.image_bytes(size));
}

std::unique_ptr<Frame> make_stored_frame(Size size, const char* pixel_format) {
    const AVPixelFormat format = av_get_pix_fmt(pixel_format);
    const auto row_bytes = static_cast<std::size_t>(av_image_get_linesize(format, size.width, 0));
    return frame_without_gaps(size, format, row_bytes, row_bytes * static_cast<std::size_t>(size.height));
}

}  // namespace spdl
