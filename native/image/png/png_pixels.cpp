#include "image/png/png_pixels.h"

#include <cstddef>
#include <cstring>

namespace spdl {
namespace {

struct Pixel {
    std::uint8_t red;
    std::uint8_t green;
    std::uint8_t blue;
};

std::uint8_t gray(const Pixel& pixel) noexcept {
    constexpr std::uint32_t kRed = 19595;
    constexpr std::uint32_t kGreen = 38470;
    constexpr std::uint32_t kBlue = 7471;
    constexpr std::uint32_t kHalf = 0x8000;
    return static_cast<std::uint8_t>((kRed * pixel.red + kGreen * pixel.green + kBlue * pixel.blue + kHalf) >> 16U);
}

// `read(x)` returns the pixel in column x.
template <typename Read>
void write(const Read& read, std::size_t left, std::size_t count, Channels channels, std::uint8_t* to) noexcept {
    switch (channels) {
        case Channels::kRgb:
            for (std::size_t i = 0; i < count; ++i) {
                const Pixel pixel = read(left + i);
                to[3 * i] = pixel.red;
                to[3 * i + 1] = pixel.green;
                to[3 * i + 2] = pixel.blue;
            }
            return;
        case Channels::kBgr:
            for (std::size_t i = 0; i < count; ++i) {
                const Pixel pixel = read(left + i);
                to[3 * i] = pixel.blue;
                to[3 * i + 1] = pixel.green;
                to[3 * i + 2] = pixel.red;
            }
            return;
        case Channels::kGray:
            for (std::size_t i = 0; i < count; ++i) {
                const std::uint8_t value = gray(read(left + i));
                to[3 * i] = value;
                to[3 * i + 1] = value;
                to[3 * i + 2] = value;
            }
            return;
    }
}

// The first bytes of a pixel's samples: the upper ones if there are two.
template <std::size_t kSamples, std::size_t kBytes>
struct Colors {
    const std::uint8_t* row;

    Pixel operator()(std::size_t x) const noexcept {
        const std::uint8_t* const at = row + kSamples * kBytes * x;
        return {at[0], at[kBytes], at[2 * kBytes]};
    }
};

template <std::size_t kStep>
struct Grays {
    const std::uint8_t* row;

    Pixel operator()(std::size_t x) const noexcept {
        const std::uint8_t value = row[kStep * x];
        return {value, value, value};
    }
};

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

    Pixel operator()(std::size_t x) const noexcept {
        const auto value = static_cast<std::uint8_t>(samples(x) * (0xffU / ((1U << samples.depth) - 1)));
        return {value, value, value};
    }
};

struct Indices {
    Samples samples;
    const std::uint8_t* palette;

    Pixel operator()(std::size_t x) const noexcept {
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
                return write(Colors<3, 2>{row}, first, width, channels, to);
            }
            if (channels == Channels::kRgb) {
                std::memcpy(to, row + 3 * first, 3 * width);
                return;
            }
            return write(Colors<3, 1>{row}, first, width, channels, to);
        case PngColor::kRgba:
            return wide ? write(Colors<4, 2>{row}, first, width, channels, to)
                        : write(Colors<4, 1>{row}, first, width, channels, to);
        case PngColor::kGrayAlpha:
            return wide ? write(Grays<4>{row}, first, width, channels, to)
                        : write(Grays<2>{row}, first, width, channels, to);
        case PngColor::kPalette:
            return write(Indices{samples, header.palette.data()}, first, width, channels, to);
        case PngColor::kGray:
            break;
    }
    if (header.depth < 8) {
        return write(NarrowGrays{samples}, first, width, channels, to);
    }
    return wide ? write(Grays<2>{row}, first, width, channels, to) : write(Grays<1>{row}, first, width, channels, to);
}

}  // namespace spdl
