#include "image/heic/alpha_rows.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace spdl {
namespace {

template <typename Sample>
void divide_row(std::uint8_t* row, std::size_t width, std::size_t channels) {
    constexpr std::uint32_t kMost = std::numeric_limits<Sample>::max();
    for (std::size_t x = 0; x < width; ++x, row += channels * sizeof(Sample)) {
        Sample pixel[4];
        std::memcpy(pixel, row, channels * sizeof(Sample));
        const std::uint32_t alpha = pixel[channels - 1];
        if (alpha == 0 || alpha == kMost) {
            continue;
        }
        for (std::size_t i = 0; i + 1 < channels; ++i) {
            pixel[i] = static_cast<Sample>(std::min(kMost, kMost * pixel[i] / alpha));
        }
        std::memcpy(row, pixel, channels * sizeof(Sample));
    }
}

}  // namespace

void write_alpha(const AlphaPlane& plane, const Box& box, const PackedFormat& format, std::uint8_t* to,
                 std::size_t row_bytes) {
    const auto bytes = static_cast<std::size_t>(format.sample_bytes);
    const std::size_t pixel = format.pixel_bytes();
    const auto nearest = [](int at, int size, int image) {
        return static_cast<std::size_t>(std::int64_t{at} * size / image);
    };
    for (int y = box.top; y < box.bottom; ++y, to += row_bytes) {
        const std::uint8_t* const row = plane.begin + nearest(y, plane.size.height, plane.image.height) * bytes *
                                                          static_cast<std::size_t>(plane.size.width);
        std::uint8_t* alpha = to + pixel - bytes;
        for (int x = box.left; x < box.right; ++x, alpha += pixel) {
            std::memcpy(alpha, row + nearest(x, plane.size.width, plane.image.width) * bytes, bytes);
        }
    }
}

void divide_by_alpha(Size size, const PackedFormat& format, std::uint8_t* to, std::size_t row_bytes) {
    const auto width = static_cast<std::size_t>(size.width);
    const auto channels = static_cast<std::size_t>(format.channels);
    for (int y = 0; y < size.height; ++y, to += row_bytes) {
        if (format.sample_bytes == 2) {
            divide_row<std::uint16_t>(to, width, channels);
        } else {
            divide_row<std::uint8_t>(to, width, channels);
        }
    }
}

}  // namespace spdl
