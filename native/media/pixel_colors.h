#pragma once

#include <cstddef>
#include <cstdint>

#include "core/channels.h"

namespace spdl {

struct PixelColor {
    std::uint8_t red;
    std::uint8_t green;
    std::uint8_t blue;
};

// Returns Pillow's gray: ITU-R BT.601 in 16-bit integers.
constexpr std::uint8_t gray_of(const PixelColor& pixel) noexcept {
    constexpr std::uint32_t kRed = 19595;
    constexpr std::uint32_t kGreen = 38470;
    constexpr std::uint32_t kBlue = 7471;
    constexpr std::uint32_t kHalf = 0x8000;
    return static_cast<std::uint8_t>((kRed * pixel.red + kGreen * pixel.green + kBlue * pixel.blue + kHalf) >> 16U);
}

// Writes `count` pixels from column `left` on as packed pixels of three bytes. `read(x)` returns the pixel in column x.
template <typename Read>
void write_colors(const Read& read, std::size_t left, std::size_t count, Channels channels, std::uint8_t* to) noexcept {
    switch (channels) {
        case Channels::kRgb:
            for (std::size_t i = 0; i < count; ++i) {
                const PixelColor pixel = read(left + i);
                to[3 * i] = pixel.red;
                to[3 * i + 1] = pixel.green;
                to[3 * i + 2] = pixel.blue;
            }
            return;
        case Channels::kBgr:
            for (std::size_t i = 0; i < count; ++i) {
                const PixelColor pixel = read(left + i);
                to[3 * i] = pixel.blue;
                to[3 * i + 1] = pixel.green;
                to[3 * i + 2] = pixel.red;
            }
            return;
        case Channels::kGray:
            for (std::size_t i = 0; i < count; ++i) {
                const std::uint8_t value = gray_of(read(left + i));
                to[3 * i] = value;
                to[3 * i + 1] = value;
                to[3 * i + 2] = value;
            }
            return;
    }
}

// The colours of samples that lie side by side: `kByte` is the byte of each sample that counts.
template <std::size_t kSamples, std::size_t kBytes, std::size_t kByte = 0>
struct PackedColors {
    const std::uint8_t* row;

    PixelColor operator()(std::size_t x) const noexcept {
        const std::uint8_t* const at = row + kSamples * kBytes * x + kByte;
        if constexpr (kSamples < 3) {
            return {at[0], at[0], at[0]};
        } else {
            return {at[0], at[kBytes], at[2 * kBytes]};
        }
    }
};

}  // namespace spdl
