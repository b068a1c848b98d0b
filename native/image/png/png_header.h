#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/bytes.h"
#include "core/geometry.h"
#include "media/pixel_format.h"

namespace spdl {

// The names of the PNG specification (https://www.w3.org/TR/png-3/), whose numbers these are.
enum class PngColor : std::uint8_t { kGray = 0, kRgb = 2, kPalette = 3, kGrayAlpha = 4, kRgba = 6 };

// The data of a PNG before its pixels.
struct PngHeader {
    static constexpr std::size_t kMaxColors = 256;

    Size size;
    int depth = 0;  // The bits of a sample.
    PngColor color = PngColor::kGray;
    bool interlaced = false;
    bool transparent = false;                            // Colours are transparent, without an alpha channel.
    std::array<std::uint16_t, 3> transparent_color{};    // The one that is, unless there is a palette.
    std::array<std::uint8_t, 4 * kMaxColors> palette{};  // With alpha.
    std::size_t pixels = 0;                              // Where the first chunk with pixels begins.

    // The bits of a pixel, and the bytes of a row of that many without the number of its filter.
    [[nodiscard]] int pixel_bits() const noexcept;
    [[nodiscard]] std::size_t row_bytes(int width) const noexcept;

    // The format of the whole decoded picture: colours instead of indices, no less than a byte for a sample, and alpha
    // if there is any.
    [[nodiscard]] PackedFormat packed() const noexcept;
};

// Reads the chunks before the pixels of a PNG, and checks their checksums as Pillow does. Throws MediaError.
PngHeader read_png_header(Bytes bytes);

}  // namespace spdl
