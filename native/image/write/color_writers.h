#pragma once

#include <cstddef>
#include <cstdint>

namespace spdl {

// The planes of YCbCr, as JPEG has them: full range, chroma around 128.
struct ColorPlanes {
    const std::uint8_t* y;
    const std::uint8_t* cb;
    const std::uint8_t* cr;
};

// Turns `count` pixels of planes into packed pixels of three bytes, red first or blue first. Reads up to kPixelSlack
// bytes beyond the end of each plane, writes nothing beyond the pixels. There is one function for each instruction set;
// all write the same.
using ColorWriter = void(const ColorPlanes& planes, std::size_t count, bool blue_first, std::uint8_t* to) noexcept;

ColorWriter write_colors_scalar;
ColorWriter write_colors_avx2;
ColorWriter write_colors_avx512;
ColorWriter write_colors_neon;

// The conversion of JFIF (ITU-R BT.601), in steps that every instruction set has: products with 15 bits of fraction,
// rounded. Red and blue are then the rounded sums. Green has two products, which keep kGreenBits bits of their fraction
// until they are added.
namespace colors {

inline constexpr int kRound = 1 << 14;
inline constexpr int kRedFromCr = 22970;    // 1.402, of twice the value.
inline constexpr int kBlueFromCb = 29032;   // 1.772, of twice the value.
inline constexpr int kGreenFromCb = 11277;  // 0.344136.
inline constexpr int kGreenFromCr = 23401;  // 0.714136.
inline constexpr int kGreenBits = 5;

}  // namespace colors

}  // namespace spdl
