#include "image/load/resized_picture.h"

#include <new>

#include "image/load/write_image.h"
#include "image/plan/image_plan.h"

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

FramePtr make_picture(Size size, const ArrayFormat& format) {
    FramePtr frame = make_frame();
    frame->format = frame_format(format.channels());
    frame->width = size.width;
    frame->height = size.height;
    frame->pts = 0;
    frame->linesize[0] = channel_count(format.channels()) * size.width;
    // Without av_frame_get_buffer's gaps between rows, the frame can become an array as it is.
    // Filters may read a little beyond the last row.
    frame->buf[0] = av_buffer_alloc(format.image_bytes(size) + AV_INPUT_BUFFER_PADDING_SIZE);
    if (frame->buf[0] == nullptr) {
        throw std::bad_alloc();
    }
    frame->data[0] = frame->buf[0]->data;
    frame->extended_data = frame->data;
    return frame;
}

}  // namespace

FramePtr resized_picture(ImageReader& reader, const LoadOptions& options, ThreadScratch& scratch) {
    const CropAndFlip crop{whole(reader.shape().upright()), false};
    const ImagePlan plan = plan_image(reader.shape(), options, crop);
    FramePtr frame = make_picture(plan.canvas, options.format);
    write_image(reader, plan, options.format, frame->data[0], scratch);
    return frame;
}

}  // namespace spdl
