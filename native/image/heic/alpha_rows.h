#pragma once

#include <cstddef>
#include <cstdint>

#include "core/geometry.h"
#include "media/packed_format.h"

namespace spdl {

// A plane of alpha whose samples are those of the pixels that it is for.
struct AlphaPlane {
    const std::uint8_t* begin;
    Size size;
    Size image;  // The size of the picture that it covers.
};

// Puts alpha into the pixels of `box`, a part of the picture: the nearest sample of the plane, as libheif does.
void write_alpha(const AlphaPlane& plane, const Box& box, const PackedFormat& format, std::uint8_t* to,
                 std::size_t row_bytes);

// Divides the colours of pixels by their alpha, as Pillow does.
void divide_by_alpha(Size size, const PackedFormat& format, std::uint8_t* to, std::size_t row_bytes);

}  // namespace spdl
