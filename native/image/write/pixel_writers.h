#pragma once

#include <cstddef>
#include <cstdint>

#include "media/pixel_format.h"

namespace spdl {

// Writes `count` pixels, each of three bytes, in an array's format: to three planes or, if the channels lie side by
// side, to the first plane alone. Reads up to kPixelSlack bytes beyond the end of the source, writes nothing beyond the
// pixels. There is one function for each instruction set; all write the same.
using PixelWriter = void(const ArrayFormat& format, const std::uint8_t* pixels, std::size_t count,
                         std::uint8_t* const* planes) noexcept;

inline constexpr std::size_t kPixelSlack = 64;

PixelWriter write_pixels_scalar;
PixelWriter write_pixels_avx2;
PixelWriter write_pixels_avx512;
PixelWriter write_pixels_neon;

// Pixels are ids, and the format has one channel.
PixelWriter write_ids;

// Writes the pixels from `first` on, which vectors leave over.
void write_pixels_from(std::size_t first, const ArrayFormat& format, const std::uint8_t* pixels, std::size_t count,
                       std::uint8_t* const* planes) noexcept;

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
