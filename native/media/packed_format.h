#pragma once

#include <cstddef>
#include <cstdint>

#include "core/channels.h"

namespace spdl {

// Pixels whose samples lie side by side: gray, gray and alpha, RGB, or RGB and alpha. Samples of two bytes are in the
// machine's order.
struct PackedFormat {
    int channels = 3;
    int sample_bytes = 1;

    [[nodiscard]] std::size_t pixel_bytes() const { return static_cast<std::size_t>(channels * sample_bytes); }
    [[nodiscard]] bool has_alpha() const { return channels == 2 || channels == 4; }

    // Returns FFmpeg's name.
    [[nodiscard]] const char* name() const noexcept;
};

// Writes `count` pixels, from column `left` of `row` on, as packed pixels of three bytes. Alpha is dropped, and of two
// bytes the upper one is kept. Gray is Pillow's: ITU-R BT.601 in 16-bit integers.
void write_packed_pixels(const PackedFormat& format, const std::uint8_t* row, int left, int count, Channels channels,
                         std::uint8_t* to) noexcept;

}  // namespace spdl
