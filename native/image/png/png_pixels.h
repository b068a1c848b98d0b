#pragma once

#include <cstdint>

#include "core/channels.h"
#include "image/png/png_header.h"

namespace spdl {

// Writes `count` pixels of an unfiltered row, from column `left` on, as packed pixels of three bytes. Alpha is dropped,
// and of 16 bits the upper 8 are kept. Gray is Pillow's: ITU-R BT.601 in 16-bit integers.
void write_png_pixels(const PngHeader& header, const std::uint8_t* row, int left, int count, Channels channels,
                      std::uint8_t* to) noexcept;

// Writes the pixels of a whole unfiltered row as header.packed() says.
void write_packed_png(const PngHeader& header, const std::uint8_t* row, std::uint8_t* to) noexcept;

}  // namespace spdl
