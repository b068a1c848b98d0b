#include "image/write/picture_array.h"

#include <algorithm>
#include <cstring>

namespace spdl {
namespace {

// Of normalised images or floats up to 255, some are beyond these.
constexpr float kLeast = -0.5F;
constexpr float kMost = 1.5F;

// A channel of a picture, and where it goes.
struct Plane {
    const std::uint8_t* from;
    std::size_t width;
    std::size_t height;
    std::ptrdiff_t across;
    std::ptrdiff_t down;
    std::uint8_t* to;
    std::size_t step;  // In elements.
};

// Writes what `convert` makes of the value at an address.
template <typename Element, typename Convert>
void write_plane(const Plane& plane, const Convert& convert) {
    auto* row = reinterpret_cast<Element*>(plane.to);
    const std::uint8_t* from = plane.from;
    for (std::size_t y = 0; y < plane.height; ++y) {
        for (std::size_t x = 0; x < plane.width; ++x) {
            row[x * plane.step] = convert(from + static_cast<std::ptrdiff_t>(x) * plane.across);
        }
        row += plane.width * plane.step;
        from += plane.down;
    }
}

void write_bytes(const Plane& plane, const ArrayFormat& format, std::size_t channel) {
    switch (format.type()) {
        case ElementType::kFloat32:
            write_plane<float>(plane,
                               [&values = format.floats(channel)](const std::uint8_t* byte) { return values[*byte]; });
            return;
        case ElementType::kFloat16:
            write_plane<std::uint16_t>(
                plane, [&values = format.halves(channel)](const std::uint8_t* byte) { return values[*byte]; });
            return;
        default:
            write_plane<std::uint8_t>(plane, [](const std::uint8_t* byte) { return *byte; });
            return;
    }
}

bool write_floats(const Plane& plane, ElementType type, float scale, float offset) {
    unsigned beyond = 0;
    const auto convert = [&](const std::uint8_t* at) {
        float value = 0;
        std::memcpy(&value, at, sizeof(value));
        beyond |= static_cast<unsigned>(value < kLeast) | static_cast<unsigned>(value > kMost);
        return value * scale + offset;
    };
    if (type == ElementType::kFloat16) {
        write_plane<std::uint16_t>(plane, [&](const std::uint8_t* at) { return to_half(convert(at)); });
    } else {
        write_plane<float>(plane, convert);
    }
    return beyond == 0;
}

}  // namespace

bool write_pictures(const PictureArray& pictures, const ArrayFormat& format, const PerChannel& scale,
                    std::uint8_t* to) {
    const auto& [count, channels, height, width] = pictures.shape;
    const bool planar = format.layout() == Layout::kNchw;
    const std::size_t next = format.element() * (planar ? height * width : 1);
    bool in_range = true;
    for (std::size_t number = 0; number < count; ++number) {
        for (std::size_t channel = 0; channel < channels; ++channel) {
            const Plane plane{pictures.data + static_cast<std::ptrdiff_t>(number) * pictures.strides[0] +
                                  static_cast<std::ptrdiff_t>(channel) * pictures.strides[1],
                              width,
                              height,
                              pictures.strides[3],
                              pictures.strides[2],
                              to + channel * next,
                              planar ? 1 : channels};
            // Beyond three channels, all are alike.
            const std::size_t values = std::min<std::size_t>(channel, 2);
            if (pictures.floats) {
                in_range &= write_floats(plane, format.type(), scale[values], format.offset()[values]);
            } else {
                write_bytes(plane, format, values);
            }
        }
        to += format.element() * channels * height * width;
    }
    return in_range;
}

}  // namespace spdl
