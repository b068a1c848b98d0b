#include "ffmpeg/picture_memory.h"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <new>

#include "core/large_blocks.h"

namespace spdl {
namespace {

// For vectors, which also read and write a little beyond the end of a row or a plane.
constexpr int kAlignment = 64;

void free_block(void* size, std::uint8_t* block) {
    give_large_block(block, reinterpret_cast<std::uintptr_t>(size));
}

}  // namespace

void allocate_picture(AVFrame& frame) {
    const auto format = static_cast<AVPixelFormat>(frame.format);
    std::ptrdiff_t strides[4] = {};
    std::size_t sizes[4] = {};
    bool fits = av_image_fill_linesizes(frame.linesize, format, frame.width) >= 0;
    for (std::size_t plane = 0; plane < std::size(strides); ++plane) {
        frame.linesize[plane] = FFALIGN(frame.linesize[plane], kAlignment);
        strides[plane] = frame.linesize[plane];
    }
    fits = fits && av_image_fill_plane_sizes(sizes, format, frame.height, strides) >= 0;
    std::size_t size = 0;
    for (const std::size_t plane : sizes) {
        size += plane + kAlignment;
    }
    if (!fits || size < kSmallestBlock) {
        if (av_frame_get_buffer(&frame, 0) < 0) {
            throw std::bad_alloc();
        }
        return;
    }
    auto* const block = static_cast<std::uint8_t*>(take_large_block(size));
    frame.buf[0] = av_buffer_create(block, size, free_block, reinterpret_cast<void*>(size), 0);
    if (frame.buf[0] == nullptr) {
        give_large_block(block, size);
        throw std::bad_alloc();
    }
    std::uint8_t* at = block;
    for (std::size_t plane = 0; plane < std::size(sizes) && sizes[plane] > 0; ++plane) {
        frame.data[plane] = at;
        at += sizes[plane] + kAlignment;
    }
    frame.extended_data = frame.data;
}

}  // namespace spdl
