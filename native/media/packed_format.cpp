#include "media/packed_format.h"

#include <bit>
#include <cstring>

#include "media/pixel_colors.h"

namespace spdl {
namespace {

constexpr bool kLittle = std::endian::native == std::endian::little;

// The byte of a sample of two that is the upper one.
constexpr std::size_t kUpper = kLittle ? 1 : 0;

template <std::size_t kSamples>
void write_samples(int sample_bytes, const std::uint8_t* row, std::size_t left, std::size_t count, Channels channels,
                   std::uint8_t* to) noexcept {
    if (sample_bytes == 2) {
        write_colors(PackedColors<kSamples, 2, kUpper>{row}, left, count, channels, to);
    } else {
        write_colors(PackedColors<kSamples, 1>{row}, left, count, channels, to);
    }
}

}  // namespace

const char* PackedFormat::name() const noexcept {
    constexpr const char* kBytes[] = {"gray", "ya8", "rgb24", "rgba"};
    constexpr const char* kWide[] = {kLittle ? "gray16le" : "gray16be", kLittle ? "ya16le" : "ya16be",
                                     kLittle ? "rgb48le" : "rgb48be", kLittle ? "rgba64le" : "rgba64be"};
    return (sample_bytes == 2 ? kWide : kBytes)[channels - 1];
}

void write_packed_pixels(const PackedFormat& format, const std::uint8_t* row, int left, int count, Channels channels,
                         std::uint8_t* to) noexcept {
    const auto first = static_cast<std::size_t>(left);
    const auto width = static_cast<std::size_t>(count);
    switch (format.channels) {
        case 1:
            return write_samples<1>(format.sample_bytes, row, first, width, channels, to);
        case 2:
            return write_samples<2>(format.sample_bytes, row, first, width, channels, to);
        case 3:
            if (format.sample_bytes == 1 && channels == Channels::kRgb) {
                std::memcpy(to, row + 3 * first, 3 * width);
                return;
            }
            return write_samples<3>(format.sample_bytes, row, first, width, channels, to);
        default:
            return write_samples<4>(format.sample_bytes, row, first, width, channels, to);
    }
}

}  // namespace spdl
