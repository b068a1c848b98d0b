#include <algorithm>

#include "image/write/pixel_writers.h"

namespace spdl {

namespace {

template <typename Element>
void write_ids_as(const std::uint8_t* pixels, std::size_t count, std::uint8_t* to) noexcept {
    for (std::size_t i = 0; i < count; ++i, to += sizeof(Element)) {
        const auto sign = static_cast<std::int8_t>(pixels[3 * i + 2]);
        const auto id = static_cast<Element>(pixels[3 * i] | pixels[3 * i + 1] << 8 | sign * (1 << 16));
        std::memcpy(to, &id, sizeof(Element));
    }
}

}  // namespace

void write_ids(const ArrayFormat& format, const std::uint8_t* pixels, std::size_t count,
               std::uint8_t* const* planes) noexcept {
    switch (element_bytes(format.type())) {
        case 8:
            return write_ids_as<std::int64_t>(pixels, count, *planes);
        case 4:
            return write_ids_as<std::int32_t>(pixels, count, *planes);
        case 2:
            return write_ids_as<std::uint16_t>(pixels, count, *planes);
        default:
            return write_ids_as<std::uint8_t>(pixels, count, *planes);
    }
}

void RowWriter::begin(const Canvas& canvas, const Target& target, PixelWriter* write_pixels) {
    canvas_ = canvas;
    target_ = target;
    const ArrayFormat& format = *canvas.format;
    write_pixels_ = format.ids() ? write_ids : write_pixels;
    const auto width = static_cast<std::size_t>(canvas.size.width);
    const bool planar = format.layout() == Layout::kNchw;
    pixel_stride_ = format.element() * (planar ? 1 : static_cast<std::size_t>(format.elements()));
    row_stride_ = width * pixel_stride_;
    plane_stride_ = row_stride_ * static_cast<std::size_t>(canvas.size.height);
    direct_ = format.plain() && !target.transposed;
    if (!direct_) {
        row_.reserve(3 * static_cast<std::size_t>(target.row_pixels()) + kPixelSlack);
    }
    const Box& box = target.box;
    if (box != whole(canvas.size)) {
        padding_.reserve(3 * width + kPixelSlack);
        for (std::size_t i = 0; i < width; ++i) {
            std::ranges::copy(format.pad(), padding_.data() + 3 * i);
        }
        std::memset(padding_.data() + 3 * width, 0, kPixelSlack);
        pad(0, canvas.size.width, 0, box.top);
        pad(0, canvas.size.width, box.bottom, canvas.size.height);
        pad(0, box.left, box.top, box.bottom);
        pad(box.right, canvas.size.width, box.top, box.bottom);
    }
}

void RowWriter::pad(int left, int right, int top, int bottom) {
    for (int y = top; y < bottom && left < right; ++y) {
        write_row(padding_.data(), left, y, right - left);
    }
}

void RowWriter::write_row(const std::uint8_t* pixels, int x, int y, int count) {
    std::uint8_t* const to = place(x, y);
    if (canvas_.format->plain()) {
        std::memcpy(to, pixels, 3 * static_cast<std::size_t>(count));
        return;
    }
    const bool planar = canvas_.format->layout() == Layout::kNchw && canvas_.format->channels() != Channels::kGray;
    std::uint8_t* const planes[3] = {to, planar ? to + plane_stride_ : nullptr,
                                     planar ? to + 2 * plane_stride_ : nullptr};
    write_pixels_(*canvas_.format, pixels, static_cast<std::size_t>(count), planes);
}

void RowWriter::write_column(const std::uint8_t* pixels, int x) {
    const ArrayFormat& format = *canvas_.format;
    const auto channels = static_cast<std::size_t>(format.elements());
    const std::size_t step = format.layout() == Layout::kNchw ? plane_stride_ : format.element();
    if (format.ids()) {
        for (int y = target_.box.top; y < target_.box.bottom; ++y, pixels += 3) {
            std::uint8_t* const to = place(x, y);
            write_ids(format, pixels, 1, &to);
        }
        return;
    }
    for (int y = target_.box.top; y < target_.box.bottom; ++y, pixels += 3) {
        std::uint8_t* const to = place(x, y);
        for (std::size_t channel = 0; channel < channels; ++channel) {
            format.write(channel, pixels[channel], to + channel * step);
        }
    }
}

void RowWriter::write(int index, const std::uint8_t* pixels) {
    if (target_.transposed) {
        write_column(pixels, target_.last_first ? target_.box.right - 1 - index : target_.box.left + index);
    } else {
        write_row(pixels, target_.box.left, canvas_row(index), target_.row_pixels());
    }
}

namespace {

// Of normalised images or floats up to 255, some are beyond these.
constexpr float kLeast = -0.5F;
constexpr float kMost = 1.5F;

// A channel of a picture, and its destination.
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

bool write_pictures(const PictureValues& pictures, const ArrayFormat& format, const PerChannel& scale,
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
