#include "ffmpeg/frame_arrays.h"

#include <string>
#include <utility>

#include "core/media_error.h"
#include "ffmpeg/ffmpeg_frame.h"
#include "ffmpeg/frame_layout.h"

namespace spdl {
namespace {

std::string describe(const AVFrame& frame) {
    return std::to_string(frame.width) + "x" + std::to_string(frame.height) + " " + ffmpeg_format_name(frame.format);
}

Buffer make_buffer(std::vector<std::size_t> shape, ElementType type, const Memory* memory) {
    return memory == nullptr ? allocate(std::move(shape), type) : allocate_in(*memory, std::move(shape), type);
}

}  // namespace

Buffer frame_to_array(std::unique_ptr<Frame> given, const Memory* memory) {
    FramePtr owner = as_ffmpeg(*given).take();
    AVFrame& frame = *owner;
    FrameLayout layout = frame_layout(frame);
    if (memory == nullptr && is_array(frame, layout)) {
        std::uint8_t* const data = frame.data[0];
        return {std::shared_ptr<AVFrame>(std::move(owner)), data, std::move(layout.shape), layout.type};
    }
    Buffer buffer = make_buffer(layout.shape, layout.type, memory);
    copy_frame(frame, layout, buffer.data);
    return buffer;
}

Buffer frames_to_array(std::span<const Frame* const> frames, const Memory* memory) {
    const AVFrame& first = as_ffmpeg(*frames.front()).get();
    for (std::size_t i = 1; i < frames.size(); ++i) {
        const AVFrame& frame = as_ffmpeg(*frames[i]).get();
        if (frame.width != first.width || frame.height != first.height || frame.format != first.format) {
            throw MediaError("frames of one batch must have one size and pixel format: the first is " +
                             describe(first) + ", but that at index " + std::to_string(i) + " is " + describe(frame) +
                             "; scale and convert them with the same filter description when they are decoded");
        }
    }
    const FrameLayout layout = frame_layout(first);
    std::vector<std::size_t> shape = layout.shape;
    shape.insert(shape.begin(), frames.size());
    Buffer buffer = make_buffer(std::move(shape), layout.type, memory);
    const std::size_t bytes = layout.bytes();
    for (std::size_t i = 0; i < frames.size(); ++i) {
        copy_frame(as_ffmpeg(*frames[i]).get(), layout, buffer.data + i * bytes);
    }
    return buffer;
}

}  // namespace spdl
