#include "image/heic/sample_colors.h"

#include <cstddef>
#include <string>

#include "core/bounded_read.h"
#include "core/media_error.h"

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

// Returns the part of `one` in the luminance of white, of which the others give the rest.
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

}  // namespace spdl
