#include "image/write/pixel_writers.h"

#include <algorithm>

namespace spdl {

void write_pixels_scalar(const ArrayFormat& format, const std::uint8_t* pixels, std::size_t count,
                         std::uint8_t* const* planes) noexcept {
    const auto channels = static_cast<std::size_t>(channel_count(format.channels()));
    const bool planar = format.layout() == Layout::kNchw;
    const std::size_t step = format.element() * (planar ? 1 : channels);
    for (std::size_t channel = 0; channel < channels; ++channel) {
        std::uint8_t* to = planar ? planes[channel] : planes[0] + channel * format.element();
        for (std::size_t i = 0; i < count; ++i, to += step) {
            format.write(channel, pixels[3 * i + channel], to);
        }
    }
}

void write_pixels_from(std::size_t first, const ArrayFormat& format, const std::uint8_t* pixels, std::size_t count,
                       std::uint8_t* const* planes) noexcept {
    if (first == count) {
        return;
    }
    const bool planar = format.layout() == Layout::kNchw;
    const std::size_t written = first * format.element() * (planar ? 1 : 3);
    std::uint8_t* rest[3];
    for (std::size_t channel = 0; channel < 3; ++channel) {
        rest[channel] = planes[channel] == nullptr ? nullptr : planes[channel] + written;
    }
    write_pixels_scalar(format, pixels + 3 * first, count - first, rest);
}

namespace {

int product(int value, int factor) {
    return (value * factor + colors::kRound) >> 15;
}

std::uint8_t clip(int value) {
    return static_cast<std::uint8_t>(std::clamp(value, 0, 255));
}

}  // namespace

void write_colors_scalar(const ColorPlanes& planes, std::size_t count, bool blue_first, std::uint8_t* to) noexcept {
    const std::size_t red = blue_first ? 2 : 0;
    for (std::size_t i = 0; i < count; ++i, to += 3) {
        const int y = planes.y[i];
        const int cb = planes.cb[i] - 128;
        const int cr = planes.cr[i] - 128;
        const int green = product(cb << colors::kGreenBits, colors::kGreenFromCb) +
                          product(cr << colors::kGreenBits, colors::kGreenFromCr);
        to[red] = clip(y + product(2 * cr, colors::kRedFromCr));
        to[1] = clip(y - ((green + (1 << (colors::kGreenBits - 1))) >> colors::kGreenBits));
        to[2 - red] = clip(y + product(2 * cb, colors::kBlueFromCb));
    }
}

}  // namespace spdl
