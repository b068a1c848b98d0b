#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/geometry.h"

namespace spdl {

// One of the seven smaller pictures that an interlaced PNG consists of (https://www.w3.org/TR/png-3/#8Interlace): which
// pixels it has, and how many. It may have none.
struct PngPass {
    int left = 0;
    int top = 0;
    int across = 1;
    int down = 1;
    Size size;
};

std::array<PngPass, 7> png_passes(Size whole) noexcept;

// Puts the pixels of a pass's row, of so many bits each, into their places in a row of the whole picture. If a byte has
// several of them, the row must be zeros where they go.
void spread_png_row(const PngPass& pass, const std::uint8_t* row, int pixel_bits, std::uint8_t* to) noexcept;

}  // namespace spdl
