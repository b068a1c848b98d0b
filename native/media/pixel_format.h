#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/buffer.h"
#include "core/geometry.h"

namespace spdl {

enum class Layout { kNhwc, kNchw };

using PerChannel = std::array<float, 3>;

// A pixel on its way from a decoder to an array.
using PixelBytes = std::array<std::uint8_t, 3>;

// Rounds to the nearest 16-bit float, halves to even, as the processors' own instruction does.
std::uint16_t to_half(float value);

// The format of the images of a batch in memory.
class ArrayFormat {
  public:
    // Bytes are written unchanged.
    explicit ArrayFormat(Channels channels = Channels::kRgb, Layout layout = Layout::kNhwc);

    // Floats (16 or 32 bits) are byte * scale + offset, rounded once to 32 bits.
    ArrayFormat(Channels channels, Layout layout, ElementType type, const PerChannel& scale, const PerChannel& offset);

    // One channel of ids, in elements of a type of whole numbers. The array has no axis of channels.
    static ArrayFormat of_ids(ElementType type);

    // Returns the format of the same pixels in a canvas that they are only kept in: three bytes each, unchanged.
    [[nodiscard]] ArrayFormat kept() const;

    // Returns the same format, with this pixel wherever no image is.
    [[nodiscard]] ArrayFormat padded(const PixelBytes& pad) const;

    [[nodiscard]] Channels channels() const { return channels_; }
    [[nodiscard]] bool ids() const { return ids_; }
    [[nodiscard]] const PixelBytes& pad() const { return pad_; }
    [[nodiscard]] Layout layout() const { return layout_; }
    [[nodiscard]] ElementType type() const { return type_; }
    [[nodiscard]] std::size_t element() const { return element_bytes(type_); }
    [[nodiscard]] const PerChannel& scale() const { return scale_; }
    [[nodiscard]] const PerChannel& offset() const { return offset_; }

    // Returns whether rows are written as they come out of the resize.
    [[nodiscard]] bool plain() const {
        return kept_ || (type_ == ElementType::kUint8 && layout_ == Layout::kNhwc && channels_ != Channels::kGray);
    }

    // Returns how many elements a pixel has.
    [[nodiscard]] int elements() const { return kept_ ? 3 : channel_count(channels_); }
    [[nodiscard]] std::vector<std::size_t> shape(std::size_t count, Size size) const;
    [[nodiscard]] std::size_t image_bytes(Size size) const;

    // Returns what each byte becomes in a channel of floats.
    [[nodiscard]] const std::array<float, 256>& floats(std::size_t channel) const { return floats_[channel]; }
    [[nodiscard]] const std::array<std::uint16_t, 256>& halves(std::size_t channel) const { return halves_[channel]; }

    // Writes the element that `byte` becomes in a channel.
    void write(std::size_t channel, std::uint8_t byte, std::uint8_t* to) const;

  private:
    Channels channels_;
    Layout layout_;
    ElementType type_ = ElementType::kUint8;
    bool ids_ = false;
    bool kept_ = false;
    PixelBytes pad_{};
    PerChannel scale_{1, 1, 1};
    PerChannel offset_{0, 0, 0};
    std::array<std::array<float, 256>, 3> floats_;
    std::array<std::array<std::uint16_t, 256>, 3> halves_;
};

// Pixels whose samples lie side by side: gray, gray and alpha, RGB, or RGB and alpha. Samples of two bytes are in the
// machine's order.
struct PackedFormat {
    int channels = 3;
    int sample_bytes = 1;

    [[nodiscard]] std::size_t pixel_bytes() const { return static_cast<std::size_t>(channels * sample_bytes); }
    [[nodiscard]] bool has_alpha() const { return channels == 2 || channels == 4; }

    // Returns FFmpeg's name.
    [[nodiscard]] const char* name() const noexcept;
};

// Writes `count` pixels, from column `left` of `row` on, as packed pixels of three bytes. Alpha is dropped, and of two
// bytes the upper one is kept. Gray is Pillow's: ITU-R BT.601 in 16-bit integers.
void write_packed_pixels(const PackedFormat& format, const std::uint8_t* row, int left, int count, Channels channels,
                         std::uint8_t* to) noexcept;

// Writes `count` ids, from column `left` of `row` on, as three bytes each. The row has samples of one or two bytes.
void write_packed_ids(int sample_bytes, const std::uint8_t* row, int left, int count, std::uint8_t* to) noexcept;

// Writes an id as three bytes, with its sign.
inline void put_id(unsigned id, std::uint8_t* to) noexcept {
    to[0] = static_cast<std::uint8_t>(id);
    to[1] = static_cast<std::uint8_t>(id >> 8U);
    to[2] = static_cast<std::uint8_t>(id >> 16U);
}

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

// The parts of a colour that a chroma sample has, in 64ths of a level.
constexpr std::array<int, 256> chroma_parts(double factor) {
    std::array<int, 256> parts{};
    for (int level = 0; level < 256; ++level) {
        parts[static_cast<std::size_t>(level)] = static_cast<int>(factor * (level - 128) * 64 + 0.5);
    }
    return parts;
}

// Returns the colour of a pixel in the YCbCr of JFIF, with all levels, as Pillow does, which probing it has shown: sums
// are rounded down to a level.
inline PixelColor color_of_ycc(std::uint8_t luma, std::uint8_t blue, std::uint8_t red) noexcept {
    static constexpr auto kRed = chroma_parts(1.402);
    static constexpr auto kGreenOfBlue = chroma_parts(-0.34414);
    static constexpr auto kGreenOfRed = chroma_parts(-0.71414);
    static constexpr auto kBlue = chroma_parts(1.772);
    const auto level = [=](int part) { return static_cast<std::uint8_t>(std::clamp(luma + (part >> 6), 0, 255)); };
    return {level(kRed[red]), level(kGreenOfBlue[blue] + kGreenOfRed[red]), level(kBlue[blue])};
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

enum class Interpolation { kNearest, kArea, kBilinear, kBicubic, kLanczos };

std::optional<Interpolation> parse_interpolation(std::string_view name);

}  // namespace spdl
