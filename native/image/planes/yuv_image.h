#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/geometry.h"
#include "core/plane_sink.h"

namespace spdl {

// A level of a plane on its way through a resize, in units of 1 / 64. Filters with negative weights go below 0 and
// above 255, and nothing is cut off before the conversion to RGB.
using FineLevel = std::int16_t;
inline constexpr int kFineBits = 6;
inline constexpr FineLevel kMiddle = 128 << kFineBits;  // Chroma without colour.

// How planes of luma and chroma become red, green and blue:
//     red = luma * (y - black) + red_from_cr * (cr - 128)
//     green = luma * (y - black) - green_from_cb * (cb - 128) - green_from_cr * (cr - 128)
//     blue = luma * (y - black) + blue_from_cb * (cb - 128)
// Those of red and blue are between 1 and 2.2. Integers with these bits of fraction end at 2, so chroma is added once
// and then its product with the rest.
struct YuvColors {
    static constexpr int kBits = 14;  // The bits of the fraction of all factors.
    static constexpr std::int16_t kOne = 1 << kBits;

    FineLevel black = 0;
    std::int16_t luma = 0;
    std::int16_t red_from_cr_less_1 = 0;
    std::int16_t green_from_cb = 0;
    std::int16_t green_from_cr = 0;
    std::int16_t blue_from_cb_less_1 = 0;
};

// An image in memory as planes of bytes, which belong to somebody else.
struct YuvImage {
    struct Rows {
        const std::uint8_t* data = nullptr;  // The first row; null for chroma if there is none.
        std::ptrdiff_t stride = 0;           // From row to row, in bytes.
    };

    Size size;
    std::array<Rows, kPlanes> planes;
    // The logarithms of how many pixels share a sample of chroma, which lies in their middle.
    int chroma_shift_x = 0;
    int chroma_shift_y = 0;
    YuvColors colors;
};

}  // namespace spdl
