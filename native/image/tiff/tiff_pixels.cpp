#include "image/tiff/tiff_pixels.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

namespace spdl {
namespace {

constexpr std::uint32_t kMostByte = 255;

// Numbers of the machine's order, clipped to a byte. What is no number becomes 0.
template <typename Number>
struct Clipped {
    std::uint8_t operator()(const std::uint8_t* row, std::size_t index) const {
        Number value;
        std::memcpy(&value, row + index * sizeof value, sizeof value);
        if (!(value > Number{0})) {
            return 0;
        }
        return value >= Number{kMostByte} ? std::uint8_t{kMostByte} : static_cast<std::uint8_t>(value);
    }
};

struct Byte {
    std::uint8_t operator()(const std::uint8_t* row, std::size_t index) const { return row[index]; }
};

template <typename Sample>
struct Wide {
    Sample operator()(const std::uint8_t* row, std::size_t index) const {
        std::uint16_t value;
        std::memcpy(&value, row + index * sizeof value, sizeof value);
        return static_cast<Sample>(sizeof(Sample) == 2 ? value : value >> 8U);
    }
};

// Samples that lie bit by bit, the highest one first.
template <typename Sample>
class Bits {
  public:
    explicit Bits(int bits) : bits_(static_cast<unsigned>(bits)), most_((1U << bits_) - 1) {}

    Sample operator()(const std::uint8_t* row, std::size_t index) const {
        const std::size_t at = index * bits_;
        const auto left = static_cast<unsigned>(at % 8) + bits_;
        std::uint32_t value = 0;
        for (unsigned read = 0; read < left; read += 8) {
            value = value << 8U | row[at / 8 + read / 8];
        }
        value = value >> ((8 - left % 8) % 8) & most_;
        if (bits_ <= 8) {
            return static_cast<Sample>((value * kMostByte + most_ / 2) / most_);
        }
        // The upper bits once more below.
        value = value << (16 - bits_) | value >> (2 * bits_ - 16);
        return static_cast<Sample>(sizeof(Sample) == 2 ? value : value >> 8U);
    }

  private:
    unsigned bits_;
    std::uint32_t most_;
};

// The same where none lies in two bytes. Indices are not spread over all levels.
template <std::size_t kBits, bool kIndex>
struct Few {
    static constexpr std::uint32_t kMost = (1U << kBits) - 1;

    std::uint8_t operator()(const std::uint8_t* row, std::size_t index) const {
        const std::size_t at = index * kBits;
        const std::uint32_t value = static_cast<std::uint32_t>(row[at / 8]) >> (8 - kBits - at % 8) & kMost;
        return static_cast<std::uint8_t>(kIndex ? value : value * (kMostByte / kMost));
    }
};

template <typename Sample, typename Read>
void take(const Read& read, const TiffRow& from, Sample* to, std::size_t step) {
    for (std::size_t i = 0; i < from.count; ++i) {
        to[i * step] = read(from.row, from.first + i * from.step);
    }
}

template <typename Sample>
std::uint32_t most() {
    return std::numeric_limits<Sample>::max();
}

// A product of two levels, as a level.
template <typename Sample>
std::uint32_t product(std::uint32_t first, std::uint32_t second) {
    constexpr unsigned kBits = 8 * sizeof(Sample);
    const std::uint32_t twice = first * second + (1U << (kBits - 1));
    return ((twice >> kBits) + twice) >> kBits;
}

template <typename Sample>
void invert_ink(const Sample* ink, Sample* to) {
    const std::uint32_t light = most<Sample>() - ink[3];
    for (int i = 0; i < 3; ++i) {
        to[i] = static_cast<Sample>(light - product<Sample>(ink[i], light));
    }
}

// Pillow's parts of colours that chroma has, in 64ths of a level.
constexpr std::array<int, 256> chroma_parts(double factor) {
    std::array<int, 256> parts{};
    for (int level = 0; level < 256; ++level) {
        parts[static_cast<std::size_t>(level)] = static_cast<int>(factor * (level - 128) * 64 + 0.5);
    }
    return parts;
}

template <typename Sample>
void make_rgb(const Sample* ycbcr, Sample* to) {
    static constexpr auto kRed = chroma_parts(1.402);
    static constexpr auto kGreenOfBlue = chroma_parts(-0.34414);
    static constexpr auto kGreenOfRed = chroma_parts(-0.71414);
    static constexpr auto kBlue = chroma_parts(1.772);
    const auto level = [=](int part) {
        return static_cast<Sample>(std::clamp(ycbcr[0] + (part >> 6), 0, static_cast<int>(kMostByte)));
    };
    const auto blue = static_cast<std::uint8_t>(ycbcr[1]);
    const auto red = static_cast<std::uint8_t>(ycbcr[2]);
    to[0] = level(kRed[red]);
    to[1] = level(kGreenOfBlue[blue] + kGreenOfRed[red]);
    to[2] = level(kBlue[blue]);
}

template <typename Sample>
Sample divided(Sample value, Sample alpha) {
    return static_cast<Sample>(std::min(most<Sample>(), value * most<Sample>() / alpha));
}

// Calls `make(from, to)` for each pixel, which writes `kShown` samples of the `kColors`, and does what is to be done
// about alpha.
template <std::size_t kColors, std::size_t kShown, typename Sample, typename Make>
void make_pixels(const TiffPicture& picture, const Sample* from, std::size_t count, Sample* to, const Make& make) {
    if (picture.alpha == 0) {
        for (std::size_t i = 0; i < count; ++i) {
            make(from + i * kColors, to + i * kShown);
        }
        return;
    }
    for (std::size_t i = 0; i < count; ++i, from += kColors + 1, to += kShown + 1) {
        make(from, to);
        const Sample alpha = from[kColors];
        to[kShown] = alpha;
        for (std::size_t channel = 0; picture.multiplied && channel < kShown; ++channel) {
            // Gray below no alpha is kept, as Pillow keeps it.
            to[channel] = alpha > 0 ? divided(to[channel], alpha) : kShown == 1 ? to[channel] : Sample{0};
        }
    }
}

template <std::size_t kBits, typename Sample>
void take_few(const TiffRow& from, Sample* to, std::size_t step) {
    return from.index ? take(Few<kBits, true>{}, from, to, step) : take(Few<kBits, false>{}, from, to, step);
}

}  // namespace

template <typename Sample>
void take_tiff_samples(const TiffPicture& picture, const TiffRow& from, Sample* to, std::size_t step) {
    if (picture.numbers == TiffNumbers::kFloat) {
        return picture.bits == 64 ? take(Clipped<double>{}, from, to, step) : take(Clipped<float>{}, from, to, step);
    }
    switch (picture.bits) {
        case 1:
            return take_few<1>(from, to, step);
        case 2:
            return take_few<2>(from, to, step);
        case 4:
            return take_few<4>(from, to, step);
        case 8:
            return take(Byte{}, from, to, step);
        case 16:
            return picture.numbers == TiffNumbers::kSigned ? take(Clipped<std::int16_t>{}, from, to, step)
                                                           : take(Wide<Sample>{}, from, to, step);
        case 32:
            return picture.numbers == TiffNumbers::kSigned ? take(Clipped<std::int32_t>{}, from, to, step)
                                                           : take(Clipped<std::uint32_t>{}, from, to, step);
        default:
            return take(Bits<Sample>(picture.bits), from, to, step);
    }
}

template <typename Sample>
void make_tiff_pixels(const TiffPicture& picture, const Sample* samples, std::size_t count, Sample* to) {
    const auto copied = [](const Sample* from, Sample* pixel) { std::copy_n(from, 3, pixel); };
    switch (picture.colors) {
        case TiffColors::kPalette:
            return make_pixels<1, 3>(picture, samples, count, to,
                                     [palette = picture.palette.data()](const Sample* from, Sample* pixel) {
                                         const std::uint8_t* const color = palette + 3 * std::size_t{*from};
                                         pixel[0] = color[0];
                                         pixel[1] = color[1];
                                         pixel[2] = color[2];
                                     });
        case TiffColors::kCmyk:
            return make_pixels<4, 3>(picture, samples, count, to, invert_ink<Sample>);
        case TiffColors::kGray: {
            const auto inverted = static_cast<Sample>(picture.inverted ? most<Sample>() : 0);
            return make_pixels<1, 1>(picture, samples, count, to, [=](const Sample* from, Sample* pixel) {
                *pixel = static_cast<Sample>(*from ^ inverted);
            });
        }
        case TiffColors::kYcbcr:
            return make_pixels<3, 3>(picture, samples, count, to, make_rgb<Sample>);
        default:
            return make_pixels<3, 3>(picture, samples, count, to, copied);
    }
}

template void take_tiff_samples(const TiffPicture&, const TiffRow&, std::uint8_t*, std::size_t);
template void take_tiff_samples(const TiffPicture&, const TiffRow&, std::uint16_t*, std::size_t);
template void make_tiff_pixels(const TiffPicture&, const std::uint8_t*, std::size_t, std::uint8_t*);
template void make_tiff_pixels(const TiffPicture&, const std::uint16_t*, std::size_t, std::uint16_t*);

}  // namespace spdl
