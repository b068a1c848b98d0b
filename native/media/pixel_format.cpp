#include "media/pixel_format.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

namespace spdl {

std::uint16_t to_half(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = bits >> 16U & 0x8000U;
    const float magnitude = std::fabs(value);
    if (std::isnan(value)) {
        return static_cast<std::uint16_t>(sign | 0x7e00U);
    }
    if (magnitude >= 65520.0F) {  // It rounds to more than the largest.
        return static_cast<std::uint16_t>(sign | 0x7c00U);
    }
    if (magnitude < 0x1p-14F) {
        // Subnormal: a multiple of 2^-24. The processor rounds it.
        return static_cast<std::uint16_t>(sign | static_cast<std::uint32_t>(std::nearbyint(magnitude * 0x1p24F)));
    }
    const std::uint32_t kept = (bits & 0x7fffffffU) - (112U << 23U);  // The exponent, counted from another zero.
    const std::uint32_t rounded = kept + 0xfffU + (kept >> 13U & 1U);
    return static_cast<std::uint16_t>(sign | rounded >> 13U);
}

ArrayFormat::ArrayFormat(Channels channels, Layout layout)
    : ArrayFormat(channels, layout, ElementType::kUint8, {1, 1, 1}, {0, 0, 0}) {}

ArrayFormat::ArrayFormat(Channels channels, Layout layout, ElementType type, const PerChannel& scale,
                         const PerChannel& offset)
    : channels_(channels), layout_(layout), type_(type), scale_(scale), offset_(offset) {
    for (std::size_t channel = 0; channel < 3; ++channel) {
        for (std::size_t byte = 0; byte < 256; ++byte) {
            const float value = std::fma(static_cast<float>(byte), scale[channel], offset[channel]);
            floats_[channel][byte] = value;
            halves_[channel][byte] = to_half(value);
        }
    }
}

ArrayFormat ArrayFormat::of_ids(ElementType type) {
    ArrayFormat format(Channels::kGray);
    format.type_ = type;
    format.ids_ = true;
    return format;
}

ArrayFormat ArrayFormat::kept() const {
    ArrayFormat format(channels_);
    format.kept_ = true;
    return format.padded(pad_);
}

ArrayFormat ArrayFormat::padded(const PixelBytes& pad) const {
    ArrayFormat format = *this;
    format.pad_ = pad;
    return format;
}

std::vector<std::size_t> ArrayFormat::shape(std::size_t count, Size size) const {
    const auto width = static_cast<std::size_t>(size.width);
    const auto height = static_cast<std::size_t>(size.height);
    if (ids_) {
        return {count, height, width};
    }
    const auto channel_sides = static_cast<std::size_t>(elements());
    if (layout_ == Layout::kNchw) {
        return {count, channel_sides, height, width};
    }
    return {count, height, width, channel_sides};
}

std::size_t ArrayFormat::image_bytes(Size size) const {
    return static_cast<std::size_t>(size.width) * static_cast<std::size_t>(size.height) *
           static_cast<std::size_t>(elements()) * element();
}

void ArrayFormat::write(std::size_t channel, std::uint8_t byte, std::uint8_t* to) const {
    switch (type_) {
        case ElementType::kFloat32:
            std::memcpy(to, &floats_[channel][byte], sizeof(float));
            return;
        case ElementType::kFloat16:
            std::memcpy(to, &halves_[channel][byte], sizeof(std::uint16_t));
            return;
        default:
            *to = byte;
            return;
    }
}

namespace {

constexpr bool kLittle = std::endian::native == std::endian::little;

// The byte of a sample of two that is the upper one.
constexpr std::size_t kUpper = kLittle ? 1 : 0;

template <std::size_t kSamples>
void write_samples(int sample_bytes, const std::uint8_t* row, std::size_t left, std::size_t count, Channels channels,
                   std::uint8_t* to) noexcept {
    if (sample_bytes == 2) {
        write_colors(PackedColors<kSamples, 2, kUpper>{row}, left, count, channels, to);
    } else {
        write_colors(PackedColors<kSamples, 1>{row}, left, count, channels, to);
    }
}

}  // namespace

const char* PackedFormat::name() const noexcept {
    constexpr const char* kBytes[] = {"gray", "ya8", "rgb24", "rgba"};
    constexpr const char* kWide[] = {kLittle ? "gray16le" : "gray16be", kLittle ? "ya16le" : "ya16be",
                                     kLittle ? "rgb48le" : "rgb48be", kLittle ? "rgba64le" : "rgba64be"};
    return (sample_bytes == 2 ? kWide : kBytes)[channels - 1];
}

void write_packed_pixels(const PackedFormat& format, const std::uint8_t* row, int left, int count, Channels channels,
                         std::uint8_t* to) noexcept {
    const auto first = static_cast<std::size_t>(left);
    const auto width = static_cast<std::size_t>(count);
    switch (format.channels) {
        case 1:
            return write_samples<1>(format.sample_bytes, row, first, width, channels, to);
        case 2:
            return write_samples<2>(format.sample_bytes, row, first, width, channels, to);
        case 3:
            if (format.sample_bytes == 1 && channels == Channels::kRgb) {
                std::memcpy(to, row + 3 * first, 3 * width);
                return;
            }
            return write_samples<3>(format.sample_bytes, row, first, width, channels, to);
        default:
            return write_samples<4>(format.sample_bytes, row, first, width, channels, to);
    }
}

void write_packed_ids(int sample_bytes, const std::uint8_t* row, int left, int count, std::uint8_t* to) noexcept {
    for (int x = left; x < left + count; ++x, to += 3) {
        std::uint16_t id = row[sample_bytes * x];
        if (sample_bytes == 2) {
            std::memcpy(&id, row + 2 * static_cast<std::ptrdiff_t>(x), sizeof id);
        }
        put_id(id, to);
    }
}

std::optional<Interpolation> parse_interpolation(std::string_view name) {
    constexpr std::array<std::pair<std::string_view, Interpolation>, 5> kNames{{
        {"nearest", Interpolation::kNearest},
        {"area", Interpolation::kArea},
        {"bilinear", Interpolation::kBilinear},
        {"bicubic", Interpolation::kBicubic},
        {"lanczos", Interpolation::kLanczos},
    }};
    for (const auto& [known, interpolation] : kNames) {
        if (known == name) {
            return interpolation;
        }
    }
    return std::nullopt;
}

}  // namespace spdl
