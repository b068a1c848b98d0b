#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/buffer.h"
#include "ffmpeg/libav.h"

namespace spdl {

// How a frame's pixels lie in an array: (H, W, C) for packed formats, (C, H, W) for planar ones without subsampling,
// (1, rows, W) for planar ones with it, the planes one after the other.
struct FrameLayout {
    std::vector<std::size_t> shape;
    ElementType type = ElementType::kUint8;

    struct Plane {
        std::size_t row_bytes;
        int rows;
    };
    std::vector<Plane> planes;
    bool swap_bytes = false;  // Samples are stored big-endian.

    [[nodiscard]] std::size_t bytes() const;
};

// Throws MediaError for formats whose samples are not whole bytes or that do not fill an array.
FrameLayout frame_layout(const AVFrame& frame);

void copy_frame(const AVFrame& frame, const FrameLayout& layout, std::uint8_t* to);

// True if the frame's memory already is the array of the layout, and nobody else uses that memory.
bool is_array(AVFrame& frame, const FrameLayout& layout);

}  // namespace spdl
