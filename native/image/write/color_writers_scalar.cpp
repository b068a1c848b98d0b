#include <algorithm>

#include "image/write/color_writers.h"

namespace spdl {
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
