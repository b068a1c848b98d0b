#include <bit>
#include <cstddef>
#include <cstring>

#include "image/augment/pixel_steps.h"

namespace spdl {
namespace {

constexpr std::size_t kPixel = 3;

// Rounds halves to even, as PyTorch does, for numbers below 2^51. The sum has no bits for a fraction.
std::int64_t rounded(double value) {
    constexpr double kNoFraction = 0x1.8p52;
    return std::bit_cast<std::int64_t>(value + kNoFraction) - std::bit_cast<std::int64_t>(kNoFraction);
}

// The pixels before, and what surrounds them.
class Pixels {
  public:
    Pixels(const std::uint8_t* first, Size size, const PixelBytes& pad)
        : first_(first), width_(size.width), height_(size.height), pad_(pad) {}

    [[nodiscard]] const std::uint8_t* at(std::int64_t x, std::int64_t y) const {
        return x < 0 || x >= width_ || y < 0 || y >= height_ ? pad_.data() : inside(x, y);
    }

    void copy(double x, double y, std::uint8_t* to) const { std::memcpy(to, at(rounded(x), rounded(y)), kPixel); }

    // The weights of four pixels have kBits bits for each direction.
    void blend(double x, double y, std::uint8_t* to) const {
        constexpr int kBits = 11;
        constexpr int kOne = 1 << kBits;
        const std::int64_t across = rounded(x * kOne);
        const std::int64_t down = rounded(y * kOne);
        const std::int64_t left = across >> kBits;
        const std::int64_t top = down >> kBits;
        if (left < -1 || left >= width_ || top < -1 || top >= height_) {
            std::memcpy(to, pad_.data(), kPixel);
            return;
        }
        const bool whole = left >= 0 && left + 1 < width_ && top >= 0 && top + 1 < height_;
        const std::uint8_t* const one = whole ? inside(left, top) : at(left, top);
        const std::uint8_t* const beside = whole ? one + kPixel : at(left + 1, top);
        const std::uint8_t* const below = whole ? inside(left, top + 1) : at(left, top + 1);
        const std::uint8_t* const beyond = whole ? below + kPixel : at(left + 1, top + 1);
        const int right = static_cast<int>(across & (kOne - 1));
        const int lower = static_cast<int>(down & (kOne - 1));
        for (std::size_t channel = 0; channel < kPixel; ++channel) {
            const int above = one[channel] * (kOne - right) + beside[channel] * right;
            const int under = below[channel] * (kOne - right) + beyond[channel] * right;
            const int sum = above * (kOne - lower) + under * lower;
            to[channel] = static_cast<std::uint8_t>((sum + (1 << (2 * kBits - 1))) >> (2 * kBits));
        }
    }

  private:
    [[nodiscard]] const std::uint8_t* inside(std::int64_t x, std::int64_t y) const {
        return first_ + kPixel * static_cast<std::size_t>(y * width_ + x);
    }

    const std::uint8_t* first_;
    std::int64_t width_;
    std::int64_t height_;
    const PixelBytes& pad_;
};

template <typename Show>
void move_each(const AffineMap& map, Size size, std::uint8_t* to, const Show& show) {
    for (int y = 0; y < size.height; ++y) {
        const double left = map.xy * y + map.dx;
        const double top = map.yy * y + map.dy;
        for (int x = 0; x < size.width; ++x, to += kPixel) {
            show(map.xx * x + left, map.yx * x + top, to);
        }
    }
}

// Fills a rectangle of cells, which are elements or whole pixels.
void fill(std::uint8_t* first, std::size_t row_bytes, Size size, Bytes cell) {
    for (std::size_t x = 0; x < static_cast<std::size_t>(size.width); ++x) {
        std::memcpy(first + x * cell.size(), cell.data(), cell.size());
    }
    for (std::size_t y = 1; y < static_cast<std::size_t>(size.height); ++y) {
        std::memcpy(first + y * row_bytes, first, static_cast<std::size_t>(size.width) * cell.size());
    }
}

void fill(const Box& box, const ImageArray& array, Bytes values, std::uint8_t* image) {
    const auto width = static_cast<std::size_t>(array.size.width);
    const std::size_t planes = array.planes ? array.channels : 1;
    const std::size_t cell = values.size() / planes;
    const std::size_t plane = width * static_cast<std::size_t>(array.size.height) * cell;
    const std::size_t first = static_cast<std::size_t>(box.top) * width + static_cast<std::size_t>(box.left);
    for (std::size_t i = 0; i < planes; ++i) {
        fill(image + i * plane + first * cell, width * cell, box.size(), values.subspan(i * cell, cell));
    }
}

}  // namespace

void move_pixels(const AffineMap& map, bool blend, const PixelBytes& pad, std::uint8_t* pixels, Size size,
                 AlignedBuffer& before) {
    before.reserve(rgb_bytes(size));
    std::memcpy(before.data(), pixels, rgb_bytes(size));
    const Pixels from(before.data(), size, pad);
    if (blend) {
        move_each(map, size, pixels, [&](double x, double y, std::uint8_t* to) { from.blend(x, y, to); });
    } else {
        move_each(map, size, pixels, [&](double x, double y, std::uint8_t* to) { from.copy(x, y, to); });
    }
}

void erase(const RandomErase& random, const ImageArray& array, Bytes values, std::uint8_t* images) {
    const std::size_t bytes =
        static_cast<std::size_t>(array.size.width) * static_cast<std::size_t>(array.size.height) * values.size();
    for (std::size_t i = 0; i < random.indices.size(); ++i) {
        if (const std::optional<Box> box = random.draw(random.indices[i], array.size)) {
            fill(*box, array, values, images + i * bytes);
        }
    }
}

}  // namespace spdl
