#include "ffmpeg/shown_pixels.h"

#include <cstdint>
#include <new>

#include "core/limits.h"
#include "core/media_error.h"

namespace spdl {

AVPixelFormat find_pixel_format(const std::string& name) {
    const AVPixelFormat format = av_get_pix_fmt(name.c_str());
    if (format == AV_PIX_FMT_NONE) {
        throw MediaError("FFmpeg has no pixel format \"" + name + "\"");
    }
    return format;
}

FramePtr show_pixels(Bytes pixels, AVPixelFormat format, Size size) {
    check_size(size, "a picture's size");
    FramePtr frame = make_frame();
    frame->format = format;
    frame->width = size.width;
    frame->height = size.height;
    frame->pts = 0;
    const int bytes = av_image_fill_arrays(frame->data, frame->linesize, pixels.data(), format, size.width, size.height,
                                           /*align=*/1);
    if (bytes < 0 || static_cast<std::size_t>(bytes) != pixels.size()) {
        throw MediaError("a picture of " + std::to_string(size.width) + "x" + std::to_string(size.height) +
                         " pixels in this format is not of " + std::to_string(pixels.size()) + " bytes");
    }
    frame->extended_data = frame->data;
    // libav copies the frame before it writes to it. Nobody frees the pixels.
    frame->buf[0] = av_buffer_create(
        const_cast<std::uint8_t*>(pixels.data()), pixels.size(), [](void*, std::uint8_t*) {}, nullptr,
        AV_BUFFER_FLAG_READONLY);
    if (frame->buf[0] == nullptr) {
        throw std::bad_alloc();
    }
    return frame;
}

}  // namespace spdl
