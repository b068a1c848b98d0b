#include "ffmpeg/frame_arrays.h"

#include <string>
#include <utility>

#include "core/media_error.h"
#include "ffmpeg/frame_layout.h"

namespace spdl {
namespace {

std::string describe(const AVFrame& frame) {
    const char* const format = av_get_pix_fmt_name(static_cast<AVPixelFormat>(frame.format));
    return std::to_string(frame.width) + "x" + std::to_string(frame.height) + " " +
           (format == nullptr ? "unknown" : format);
}

Buffer make_buffer(std::vector<std::size_t> shape, ElementType type, const Memory* memory) {
    return memory == nullptr ? allocate(std::move(shape), type) : allocate_in(*memory, std::move(shape), type);
}

}  // namespace

Buffer convert_image(DecodedImage image, const Memory* memory) {
    AVFrame& frame = *image.frame;
    FrameLayout layout = frame_layout(frame);
    if (memory == nullptr && is_array(frame, layout)) {
        std::uint8_t* const data = frame.data[0];
        return {std::shared_ptr<AVFrame>(std::move(image.frame)), data, std::move(layout.shape), layout.type};
    }
    Buffer buffer = make_buffer(layout.shape, layout.type, memory);
    copy_frame(frame, layout, buffer.data);
    return buffer;
}

Buffer convert_images(std::span<const DecodedImage* const> images, const Memory* memory) {
    const AVFrame& first = *images.front()->frame;
    for (std::size_t i = 1; i < images.size(); ++i) {
        const AVFrame& frame = *images[i]->frame;
        if (frame.width != first.width || frame.height != first.height || frame.format != first.format) {
            throw MediaError("frames of one batch must have one size and pixel format: the first is " +
                             describe(first) + ", but that at index " + std::to_string(i) + " is " + describe(frame) +
                             "; scale and convert them with the same filter description when they are decoded");
        }
    }
    const FrameLayout layout = frame_layout(first);
    std::vector<std::size_t> shape = layout.shape;
    shape.insert(shape.begin(), images.size());
    Buffer buffer = make_buffer(std::move(shape), layout.type, memory);
    const std::size_t bytes = layout.bytes();
    for (std::size_t i = 0; i < images.size(); ++i) {
        copy_frame(*images[i]->frame, layout, buffer.data + i * bytes);
    }
    return buffer;
}

}  // namespace spdl
