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

}  // namespace

std::unique_ptr<Frame> make_packed_frame(Size size, const ArrayFormat& format) {
    FramePtr frame = make_frame();
    frame->format = frame_format(format.channels());
    frame->width = size.width;
    frame->height = size.height;
    frame->pts = 0;
    frame->linesize[0] = channel_count(format.channels()) * size.width;
    // Not av_frame_get_buffer, which leaves gaps between rows. Filters may read a little beyond the last row.
    frame->buf[0] = av_buffer_alloc(format.image_bytes(size) + AV_INPUT_BUFFER_PADDING_SIZE);
    if (frame->buf[0] == nullptr) {
        throw std::bad_alloc();
    }
    frame->data[0] = frame->buf[0]->data;
    frame->extended_data = frame->data;
    return std::make_unique<FfmpegFrame>(std::move(frame));
}

}  // namespace spdl
