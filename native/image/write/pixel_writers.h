#pragma once

#include <cstddef>
#include <cstdint>

#include "media/array_format.h"

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

// Writes the pixels from `first` on, which vectors leave over.
void write_pixels_from(std::size_t first, const ArrayFormat& format, const std::uint8_t* pixels, std::size_t count,
                       std::uint8_t* const* planes) noexcept;

}  // namespace spdl
