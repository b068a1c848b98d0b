#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/bytes.h"
#include "core/geometry.h"

namespace spdl {

// The names of the PNG specification (https://www.w3.org/TR/png-3/), whose numbers these are.
enum class PngColor : std::uint8_t { kGray = 0, kRgb = 2, kPalette = 3, kGrayAlpha = 4, kRgba = 6 };

// What a PNG says before its pixels.
struct PngHeader {
    static constexpr std::size_t kMaxColors = 256;

    Size size;
    int depth = 0;  // The bits of a sample.
    PngColor color = PngColor::kGray;
    bool transparent = false;  // Has transparent colours besides an alpha channel.
    std::array<std::uint8_t, 3 * kMaxColors> palette{};
    std::size_t pixels = 0;  // Where the first chunk with pixels begins.

    // The bits of a pixel, and the bytes of a row without the number of its filter.
    [[nodiscard]] int pixel_bits() const noexcept;
    [[nodiscard]] std::size_t row_bytes() const noexcept;

    // Returns FFmpeg's name of what is stored.
    [[nodiscard]] const char* pixel_format() const noexcept;
};

// Returns whether the bytes begin as a PNG of a kind that PngDecoder knows: one that is not interlaced.
bool is_plain_png(Bytes bytes) noexcept;

// Reads the chunks before the pixels of a plain PNG, and checks their checksums as Pillow does. Throws MediaError.
PngHeader read_png_header(Bytes bytes);

}  // namespace spdl
