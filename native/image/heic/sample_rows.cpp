#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <string>

#include "core/bytes.h"
#include "core/errors.h"
#include "image/heic/heif.h"

namespace spdl {
namespace {

// The parts of red and blue in luma.
struct LumaWeights {
    float red;
    float blue;
};

struct Chromaticity {
    double x;
    double y;
};

struct Primaries {
    Chromaticity red;
    Chromaticity green;
    Chromaticity blue;
    Chromaticity white;
};

constexpr Chromaticity kD65{0.3127, 0.3290};

Primaries primaries_of(int number) {
    constexpr Chromaticity kC{0.310, 0.316};
    switch (number) {
        case 1:
        case 2:
            return {{0.640, 0.330}, {0.300, 0.600}, {0.150, 0.060}, kD65};
        case 4:
            return {{0.67, 0.33}, {0.21, 0.71}, {0.14, 0.08}, kC};
        case 5:
            return {{0.64, 0.33}, {0.29, 0.60}, {0.15, 0.06}, kD65};
        case 6:
        case 7:
            return {{0.630, 0.340}, {0.310, 0.595}, {0.155, 0.070}, kD65};
        case 8:
            return {{0.681, 0.319}, {0.243, 0.692}, {0.145, 0.049}, kC};
        case 9:
            return {{0.708, 0.292}, {0.170, 0.797}, {0.131, 0.046}, kD65};
        case 11:
            return {{0.680, 0.320}, {0.265, 0.690}, {0.150, 0.060}, {0.314, 0.351}};
        case 12:
            return {{0.680, 0.320}, {0.265, 0.690}, {0.150, 0.060}, kD65};
        case 22:
            return {{0.630, 0.340}, {0.295, 0.605}, {0.155, 0.077}, kD65};
        default:
            throw MediaError("cannot decode the HEIF: its colours follow from its primaries, whose number " +
                             std::to_string(number) + " is not known");
    }
}

// Returns the part of `one` in the luminance of white; the others give the rest.
double part_in_white(const Chromaticity& one, const Chromaticity& other, const Chromaticity& third,
                     const Chromaticity& white) {
    const auto determinant = [](const Chromaticity& a, const Chromaticity& b, const Chromaticity& c) {
        return a.x * (b.y - c.y) + b.x * (c.y - a.y) + c.x * (a.y - b.y);
    };
    return one.y / white.y * determinant(white, other, third) / determinant(one, other, third);
}

LumaWeights luma_weights(const SampleColors& colors) {
    switch (colors.matrix) {
        case 1:
            return {0.2126F, 0.0722F};
        case 4:
            return {0.30F, 0.11F};
        case 2:
        case 5:
        case 6:
            return {0.299F, 0.114F};
        case 7:
            return {0.212F, 0.087F};
        case 9:
            return {0.2627F, 0.0593F};
        case 12: {
            const Primaries p = primaries_of(colors.primaries);
            return {static_cast<float>(part_in_white(p.red, p.green, p.blue, p.white)),
                    static_cast<float>(part_in_white(p.blue, p.red, p.green, p.white))};
        }
        default:
            throw MediaError("cannot decode the HEIF: its colours follow the matrix number " +
                             std::to_string(colors.matrix) + ", which is not known; convert it, for example to a JPEG");
    }
}

}  // namespace

bool find_colors(std::span<const ItemProperty> properties, SampleColors& found) {
    constexpr std::size_t kSize = 11;
    for (const ItemProperty& property : properties) {
        const Bytes content = property.box.content;
        if (property.box.name == "colr" && content.size() >= kSize && starts_with(content, "nclx")) {
            const auto read = [&](std::size_t at) { return static_cast<int>(read_integer(content, at, 2, false)); };
            found = {read(8), read(4), (content[kSize - 1] & 0x80U) != 0};
            return true;
        }
    }
    return false;
}

ColorFactors color_factors(const SampleColors& colors) {
    if (colors.matrix == kRgbMatrix || colors.matrix == kYcgcoMatrix) {
        return {};
    }
    const LumaWeights weights = luma_weights(colors);
    const float red = weights.red;
    const float blue = weights.blue;
    const float minus_green = blue + red - 1;
    return {2 * (1 - red), 2 * blue * (1 - blue) / minus_green, 2 * red * (1 - red) / minus_green, 2 * (1 - blue)};
}

namespace {

constexpr int kByteBits = 8;
constexpr int kWordBits = 16;

// The factors for samples that do not use all levels. Rounded as libheif does.
constexpr float kLumaFactor = 1.1689F;
constexpr float kChromaFactor = 1.1429F;

struct Pixel {
    std::uint16_t red;
    std::uint16_t green;
    std::uint16_t blue;
};

std::uint16_t clip(int value, int most) {
    return static_cast<std::uint16_t>(std::clamp(value, 0, most));
}

std::uint16_t rounded(float value, int most) {
    return clip(static_cast<int>(value + 0.5F), most);
}

template <typename Sample>
void widen(const std::uint8_t* bytes, int left, int shift, int cut, std::vector<std::uint16_t>& to, std::size_t count) {
    for (std::size_t x = 0; x < count; ++x) {
        const std::size_t column = (static_cast<std::size_t>(left) + x) >> shift;
        Sample sample;
        std::memcpy(&sample, bytes + column * sizeof(Sample), sizeof(Sample));
        to[x] = static_cast<std::uint16_t>(sample >> cut);
    }
}

template <std::size_t kChannels, std::size_t kColors>
void interleave(int sample_bytes, const std::vector<std::uint16_t> (&rows)[3], std::uint8_t* to, std::size_t width) {
    for (std::size_t x = 0; x < width; ++x) {
        for (std::size_t i = 0; i < kColors; ++i) {
            const std::uint16_t sample = rows[i][x];
            if (sample_bytes == 1) {
                to[kChannels * x + i] = static_cast<std::uint8_t>(sample);
            } else {
                std::memcpy(to + 2 * (kChannels * x + i), &sample, sizeof(sample));
            }
        }
    }
}

}  // namespace

YuvRows::YuvRows(const SampleLayout& layout, const SampleColors& colors, const PackedFormat& format)
    : layout_(layout),
      colors_(colors),
      format_(format),
      factors_(layout.gray ? ColorFactors{} : color_factors(colors)),
      by_integers_(format.sample_bytes == 1 && colors.full_range && layout.chroma_shift == Size{1, 1} &&
                   colors.matrix != kRgbMatrix && colors.matrix != kYcgcoMatrix),
      depth_(by_integers_ ? kByteBits : layout.depth) {}

void YuvRows::convert(const CodedPicture& picture, const Box& part, std::uint8_t* to, std::size_t row_bytes) {
    const auto width = static_cast<std::size_t>(part.size().width);
    for (Row& row : rows_) {
        row.resize(std::max(row.size(), width));
    }
    for (int y = part.top; y < part.bottom; ++y, to += row_bytes) {
        for (std::size_t plane = 0; plane < (layout_.gray ? 1 : 3); ++plane) {
            read(picture, plane, y, part);
        }
        convert_row(width);
        write(to, width);
    }
}

void YuvRows::read(const CodedPicture& picture, std::size_t plane, int y, const Box& part) {
    const Size shift = plane == 0 ? Size{} : layout_.chroma_shift;
    const std::uint8_t* const row = picture.planes[plane] + (y >> shift.height) * picture.row_distances[plane];
    const auto width = static_cast<std::size_t>(part.size().width);
    const int cut = layout_.depth - depth_;
    if (layout_.depth > kByteBits) {
        widen<std::uint16_t>(row, part.left, shift.width, cut, rows_[plane], width);
    } else {
        widen<std::uint8_t>(row, part.left, shift.width, cut, rows_[plane], width);
    }
}

void YuvRows::convert_row(std::size_t width) {
    const int most = (1 << depth_) - 1;
    if (layout_.gray) {
        stretch_gray(width, most);
    } else if (by_integers_) {
        convert_integers(width, most);
    } else if (colors_.matrix == kRgbMatrix) {
        const Range range = range_of(kLumaFactor);
        convert_floats(width, range, range, [=](float green, float blue, float red) {
            return Pixel{rounded(red, most), rounded(green, most), rounded(blue, most)};
        });
    } else if (colors_.matrix == kYcgcoMatrix) {
        convert_floats(width, range_of(kLumaFactor), chroma_range(), [=](float luma, float cg, float co) {
            return Pixel{rounded(luma - cg + co, most), rounded(luma + cg, most), rounded(luma - cg - co, most)};
        });
    } else {
        const ColorFactors by = factors_;
        convert_floats(width, range_of(kLumaFactor), chroma_range(), [=](float luma, float cb, float cr) {
            return Pixel{rounded(luma + by.red_cr * cr, most),
                         rounded(luma + by.green_cb * cb + by.green_cr * cr, most),
                         rounded(luma + by.blue_cb * cb, most)};
        });
    }
}

YuvRows::Range YuvRows::range_of(float factor) const {
    if (colors_.full_range) {
        return {0, 1};
    }
    return {static_cast<float>(16 << (depth_ - kByteBits)), factor};
}

YuvRows::Range YuvRows::chroma_range() const {
    return {static_cast<float>(1 << (depth_ - 1)), range_of(kChromaFactor).factor};
}

void YuvRows::stretch_gray(std::size_t width, int most) {
    if (colors_.full_range) {
        return;
    }
    const Range range = range_of(kLumaFactor);
    for (std::size_t x = 0; x < width; ++x) {
        rows_[0][x] = rounded((static_cast<float>(rows_[0][x]) - range.zero) * range.factor, most);
    }
}

void YuvRows::convert_integers(std::size_t width, int most) {
    const auto fixed = [](float factor) { return static_cast<int>(std::lround(256 * factor)); };
    const int red_cr = fixed(factors_.red_cr);
    const int green_cb = fixed(factors_.green_cb);
    const int green_cr = fixed(factors_.green_cr);
    const int blue_cb = fixed(factors_.blue_cb);
    constexpr int kHalf = 128;
    std::uint16_t* const first = rows_[0].data();
    std::uint16_t* const second = rows_[1].data();
    std::uint16_t* const third = rows_[2].data();
    for (std::size_t x = 0; x < width; ++x) {
        const int luma = first[x];
        const int cb = second[x] - kHalf;
        const int cr = third[x] - kHalf;
        first[x] = clip(luma + ((red_cr * cr + kHalf) >> 8), most);
        second[x] = clip(luma + ((green_cb * cb + green_cr * cr + kHalf) >> 8), most);
        third[x] = clip(luma + ((blue_cb * cb + kHalf) >> 8), most);
    }
}

template <typename ToPixel>
void YuvRows::convert_floats(std::size_t width, const Range& luma, const Range& chroma, const ToPixel& to_pixel) {
    std::uint16_t* const first = rows_[0].data();
    std::uint16_t* const second = rows_[1].data();
    std::uint16_t* const third = rows_[2].data();
    for (std::size_t x = 0; x < width; ++x) {
        const auto in = [&](std::uint16_t sample, const Range& range) {
            return (static_cast<float>(sample) - range.zero) * range.factor;
        };
        const Pixel pixel = to_pixel(in(first[x], luma), in(second[x], chroma), in(third[x], chroma));
        first[x] = pixel.red;
        second[x] = pixel.green;
        third[x] = pixel.blue;
    }
}

template <typename Change>
void YuvRows::change(const Change& change) {
    for (Row& row : rows_) {
        for (std::uint16_t& sample : row) {
            sample = static_cast<std::uint16_t>(change(sample));
        }
    }
}

void YuvRows::write(std::uint8_t* to, std::size_t width) {
    if (format_.sample_bytes == 2) {
        // All bits are filled, so that white is white.
        const int up = kWordBits - depth_;
        const int down = depth_ - up;
        change([=](std::uint16_t sample) { return sample << up | sample >> down; });
    } else if (depth_ > kByteBits) {
        change([=, cut = depth_ - kByteBits](std::uint16_t sample) { return sample >> cut; });
    }
    switch (format_.channels) {
        case 1:
            return interleave<1, 1>(format_.sample_bytes, rows_, to, width);
        case 2:
            return interleave<2, 1>(format_.sample_bytes, rows_, to, width);
        case 3:
            return interleave<3, 3>(format_.sample_bytes, rows_, to, width);
        default:
            return interleave<4, 3>(format_.sample_bytes, rows_, to, width);
    }
}

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
