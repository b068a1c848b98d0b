#include "image/png/png_pixels.h"

#include <bit>
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

    [[nodiscard]] std::uint8_t value(std::size_t sample) const noexcept {
        return static_cast<std::uint8_t>(sample * (0xffU / ((1U << samples.depth) - 1)));
    }

    PixelColor operator()(std::size_t x) const noexcept {
        const std::uint8_t gray = value(samples(x));
        return {gray, gray, gray};
    }
};

struct Indices {
    Samples samples;
    const std::uint8_t* palette;

    PixelColor operator()(std::size_t x) const noexcept {
        const std::uint8_t* const color = palette + 4 * samples(x);
        return {color[0], color[1], color[2]};
    }
};

// Samples of 8 or 16 bits from their order in the file to the machine's.
template <typename Sample>
Sample swapped(Sample sample) noexcept {
    if constexpr (sizeof(Sample) == 2 && std::endian::native == std::endian::little) {
        return static_cast<Sample>(sample << 8U | sample >> 8U);
    }
    return sample;
}

template <typename Sample>
Sample load_sample(const std::uint8_t* row, std::size_t index) noexcept {
    Sample sample = 0;
    std::memcpy(&sample, row + index * sizeof(Sample), sizeof(Sample));
    return swapped(sample);
}

template <typename Sample>
void store_sample(std::uint8_t* row, std::size_t index, Sample sample) noexcept {
    std::memcpy(row + index * sizeof(Sample), &sample, sizeof(Sample));
}

template <typename Sample>
void write_samples(const std::uint8_t* row, std::size_t count, std::uint8_t* to) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
        store_sample(to, i, load_sample<Sample>(row, i));
    }
}

// The pixels of the transparent colour get an alpha of 0, the others the largest.
template <typename Sample, std::size_t kColors>
void write_with_alpha(const PngHeader& header, const std::uint8_t* row, std::size_t width, std::uint8_t* to) noexcept {
    for (std::size_t x = 0; x < width; ++x) {
        bool transparent = true;
        for (std::size_t i = 0; i < kColors; ++i) {
            const auto sample = load_sample<Sample>(row, kColors * x + i);
            transparent = transparent && sample == header.transparent_color[i];
            store_sample(to, (kColors + 1) * x + i, sample);
        }
        store_sample(to, (kColors + 1) * x + kColors, static_cast<Sample>(transparent ? 0 : ~0));
    }
}

void write_narrow(const PngHeader& header, const NarrowGrays& grays, std::size_t width, std::uint8_t* to) noexcept {
    const std::size_t step = header.transparent ? 2 : 1;
    for (std::size_t x = 0; x < width; ++x) {
        const std::size_t sample = grays.samples(x);
        to[step * x] = grays.value(sample);
        if (header.transparent) {
            to[step * x + 1] = sample == header.transparent_color[0] ? 0 : 0xff;
        }
    }
}

template <std::size_t kChannels>
void write_indexed(const PngHeader& header, const Samples& samples, std::size_t width, std::uint8_t* to) noexcept {
    for (std::size_t x = 0; x < width; ++x) {
        std::memcpy(to + kChannels * x, header.palette.data() + 4 * samples(x), kChannels);
    }
}

template <typename Sample>
void write_whole(const PngHeader& header, const std::uint8_t* row, std::size_t width, std::uint8_t* to) noexcept {
    if (!header.transparent) {
        return write_samples<Sample>(row, width * static_cast<std::size_t>(header.packed().channels), to);
    }
    return header.color == PngColor::kGray ? write_with_alpha<Sample, 1>(header, row, width, to)
                                           : write_with_alpha<Sample, 3>(header, row, width, to);
}

}  // namespace

void write_packed_png(const PngHeader& header, const std::uint8_t* row, std::uint8_t* to) noexcept {
    const auto width = static_cast<std::size_t>(header.size.width);
    const Samples samples{row, static_cast<std::size_t>(header.depth)};
    if (header.color == PngColor::kPalette) {
        return header.transparent ? write_indexed<4>(header, samples, width, to)
                                  : write_indexed<3>(header, samples, width, to);
    }
    if (header.depth < 8) {
        return write_narrow(header, {samples}, width, to);
    }
    return header.depth == 16 ? write_whole<std::uint16_t>(header, row, width, to)
                              : write_whole<std::uint8_t>(header, row, width, to);
}

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
    return wide ? write_colors(PackedColors<1, 2>{row}, first, width, channels, to)
                : write_colors(PackedColors<1, 1>{row}, first, width, channels, to);
}

}  // namespace spdl
