#include "ffmpeg/borrowed_frame.h"

#include <cstdint>
#include <new>
#include <utility>

namespace spdl {
namespace {

// Its address marks the frames.
char mark;

using Owner = std::shared_ptr<const void>;

}  // namespace

void borrow(AVFrame& frame, Owner owner, Bytes memory) {
    auto kept = std::make_unique<Owner>(std::move(owner));
    frame.buf[0] = av_buffer_create(
        const_cast<std::uint8_t*>(memory.data()), memory.size(),
        [](void* opaque, std::uint8_t* /*data*/) { delete static_cast<Owner*>(opaque); }, kept.get(),
        AV_BUFFER_FLAG_READONLY);
    if (frame.buf[0] == nullptr) {
        throw std::bad_alloc();
    }
    static_cast<void>(kept.release());
    frame.opaque = &mark;
}

bool is_borrowed(const AVFrame& frame) {
    return frame.opaque == &mark;
}

FramePtr copy_frame(const AVFrame& frame) {
    FramePtr copy = make_frame();
    copy->format = frame.format;
    copy->width = frame.width;
    copy->height = frame.height;
    copy->nb_samples = frame.nb_samples;
    copy->sample_rate = frame.sample_rate;
    if (av_channel_layout_copy(&copy->ch_layout, &frame.ch_layout) < 0 || av_frame_get_buffer(copy.get(), 0) < 0 ||
        av_frame_copy(copy.get(), &frame) < 0 || av_frame_copy_props(copy.get(), &frame) < 0) {
        throw std::bad_alloc();
    }
    copy->opaque = nullptr;
    return copy;
}

}  // namespace spdl
