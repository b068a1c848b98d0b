#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/geometry.h"

namespace spdl {

// Pixels in host memory, which somebody else owns.
struct Picture {
    Size size;
    std::string_view pixel_format;                  // By FFmpeg's name.
    std::array<const std::uint8_t*, 4> planes{};    // Those of packed formats are one.
    std::array<std::ptrdiff_t, 4> row_distances{};  // In bytes, from one row of a plane to the next.
};

}  // namespace spdl
