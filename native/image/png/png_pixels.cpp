#include "image/png/png_pixels.h"

#include <cstddef>
#include <cstring>

#include "media/pixel_colors.h"

namespace spdl {
namespace {

// Samples of 1, 2, 4 or 8 bits, the first in the highest ones.
struct Samples {
    const std::uint8_t* row;
    std::size_t depth;

    std::size_t operator()(std::size_t x) const noexcept {
        const std::size_t bit = x * depth;
        return (row[bit / 8] >> (8 - depth - bit % 8)) & ((1U << depth) - 1);
    }
};

struct NarrowGrays {
    Samples samples;

    PixelColor operator()(std::size_t x) const noexcept {
        const auto value = static_cast<std::uint8_t>(samples(x) * (0xffU / ((1U << samples.depth) - 1)));
        return {value, value, value};
    }
};

struct Indices {
    Samples samples;
    const std::uint8_t* palette;

    PixelColor operator()(std::size_t x) const noexcept {
        const std::uint8_t* const color = palette + 3 * samples(x);
        return {color[0], color[1], color[2]};
    }
};

}  // namespace

void write_png_pixels(const PngHeader& header, const std::uint8_t* row, int left, int count, Channels channels,
                      std::uint8_t* to) noexcept {
    const auto first = static_cast<std::size_t>(left);
    const auto width = static_cast<std::size_t>(count);
    const bool wide = header.depth == 16;
    const Samples samples{row, static_cast<std::size_t>(header.depth)};
    switch (header.color) {
        case PngColor::kRgb:
            if (wide) {
                return write_colors(PackedColors<3, 2>{row}, first, width, channels, to);
            }
            if (channels == Channels::kRgb) {
                std::memcpy(to, row + 3 * first, 3 * width);
                return;
            }
            return write_colors(PackedColors<3, 1>{row}, first, width, channels, to);
        case PngColor::kRgba:
            return wide ? write_colors(PackedColors<4, 2>{row}, first, width, channels, to)
                        : write_colors(PackedColors<4, 1>{row}, first, width, channels, to);
        case PngColor::kGrayAlpha:
            return wide ? write_colors(PackedColors<2, 2>{row}, first, width, channels, to)
                        : write_colors(PackedColors<2, 1>{row}, first, width, channels, to);
        case PngColor::kPalette:
            return write_colors(Indices{samples, header.palette.data()}, first, width, channels, to);
        case PngColor::kGray:
            break;
    }
    if (header.depth < 8) {
        return write_colors(NarrowGrays{samples}, first, width, channels, to);
    }
    return wide ? write_colors(PackedColors<1, 2>{row}, first, width, channels, to) : write_colors(PackedColors<1, 1>{row}, first, width, channels, to);
}

}  // namespace spdl
