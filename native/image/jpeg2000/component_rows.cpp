#include "image/jpeg2000/component_rows.h"

#include <algorithm>
#include <array>
#include <limits>

namespace spdl {
namespace {

constexpr int kInks = 4;

template <typename Sample>
constexpr std::int32_t kMost = std::numeric_limits<Sample>::max();

template <typename Sample>
constexpr int kBits = std::numeric_limits<Sample>::digits;

// White becomes white: fewer bits are stretched, and of more the upper ones are kept.
template <typename Sample>
void write_samples(const opj_image_comp_t& component, const OPJ_INT32* from, std::size_t count, int step, Sample* to) {
    const auto bits = static_cast<int>(component.prec);
    const auto pixels = [&](const auto& convert) {
        for (std::size_t x = 0; x < count; ++x, to += step) {
            *to = convert(from[x]);
        }
    };
    if (bits == kBits<Sample> && component.sgnd == 0) {
        pixels([](OPJ_INT32 value) { return static_cast<Sample>(value); });
        return;
    }
    const std::int64_t most = (std::int64_t{1} << bits) - 1;
    const std::int64_t lowest = component.sgnd != 0 ? -(std::int64_t{1} << (bits - 1)) : 0;
    const auto level = [=](OPJ_INT32 value) { return std::clamp<std::int64_t>(value - lowest, 0, most); };
    if (bits >= kBits<Sample>) {
        pixels([=](OPJ_INT32 value) { return static_cast<Sample>(level(value) >> (bits - kBits<Sample>)); });
    } else {
        pixels([=](OPJ_INT32 value) { return static_cast<Sample>((level(value) * kMost<Sample> + most / 2) / most); });
    }
}

// Pillow's conversion of YCbCr, found by probing it: fractions of 1/64, which are rounded towards zero.
struct YccTables {
    std::array<int, 256> red;
    std::array<int, 256> green_of_blue;
    std::array<int, 256> green_of_red;
    std::array<int, 256> blue;
};

constexpr YccTables make_tables() {
    YccTables tables{};
    for (int i = 0; i < 256; ++i) {
        const auto at = static_cast<std::size_t>(i);
        const double centered = 64.0 * (i - 128);
        tables.red[at] = static_cast<int>(1.402 * centered + 0.5);
        tables.green_of_blue[at] = static_cast<int>(-0.34414 * centered + 0.5);
        tables.green_of_red[at] = static_cast<int>(-0.71414 * centered + 0.5);
        tables.blue[at] = static_cast<int>(1.772 * centered + 0.5);
    }
    return tables;
}

void ycc_to_rgb(std::uint8_t* pixel) {
    static constexpr YccTables kTables = make_tables();
    const int luma = pixel[0];
    const std::size_t blue = pixel[1];
    const std::size_t red = pixel[2];
    const auto level = [=](int more) { return static_cast<std::uint8_t>(std::clamp(luma + (more >> 6), 0, 255)); };
    pixel[0] = level(kTables.red[red]);
    pixel[1] = level(kTables.green_of_blue[blue] + kTables.green_of_red[red]);
    pixel[2] = level(kTables.blue[blue]);
}

void ycc_to_rgb(std::uint16_t* pixel) {
    constexpr double kMiddle = 32768.0;
    const double luma = pixel[0] + 0.5;
    const double blue = pixel[1] - kMiddle;
    const double red = pixel[2] - kMiddle;
    const auto level = [](double value) { return static_cast<std::uint16_t>(std::clamp(value, 0.0, 65535.0)); };
    pixel[0] = level(luma + 1.402 * red);
    pixel[1] = level(luma - 0.344136 * blue - 0.714136 * red);
    pixel[2] = level(luma + 1.772 * blue);
}

// As Pillow does: light is what neither black nor the ink of a colour takes.
template <typename Sample>
void cmyk_to_rgb(const Sample* inks, Sample* rgb) {
    constexpr std::int64_t most = kMost<Sample>;
    const std::int64_t light = most - inks[3];
    for (int i = 0; i < 3; ++i) {
        rgb[i] = static_cast<Sample>(light - (2 * light * inks[i] + most) / (2 * most));
    }
}

}  // namespace

ComponentRows::ComponentRows(const opj_image_t& image, Jpeg2000Colors colors, int halvings, Box place)
    : image_(image), colors_(colors), halvings_(halvings), place_(place) {}

const OPJ_INT32* ComponentRows::row_of(const opj_image_comp_t& component, int y) {
    // Returns where the sample that is shown at a place lies in the component.
    const auto index = [&](int at, OPJ_UINT32 apart, OPJ_UINT32 first, OPJ_UINT32 count) {
        const std::int64_t halved = (std::int64_t{first} + (std::int64_t{1} << halvings_) - 1) >> halvings_;
        return static_cast<std::size_t>(
            std::clamp<std::int64_t>(at / static_cast<int>(apart) - halved, 0, std::int64_t{count} - 1));
    };
    const OPJ_INT32* const row =
        component.data + index(place_.top + y, component.dy, component.y0, component.h) * component.w;
    const Size size = place_.size();
    if (component.dx == 1) {
        return row + index(place_.left, 1, component.x0, component.w);
    }
    repeated_.resize(static_cast<std::size_t>(size.width));
    for (int x = 0; x < size.width; ++x) {
        repeated_[static_cast<std::size_t>(x)] = row[index(place_.left + x, component.dx, component.x0, component.w)];
    }
    return repeated_.data();
}

template <typename Sample>
void ComponentRows::write_row(int y, int channels, Sample* to) {
    for (int channel = 0; channel < channels; ++channel) {
        const opj_image_comp_t& component = image_.comps[channel];
        write_samples(component, row_of(component, y), static_cast<std::size_t>(place_.size().width), channels,
                      to + channel);
    }
}

void ComponentRows::write(const PackedFormat& format, std::uint8_t* to, std::size_t row_bytes) {
    const Size size = place_.size();
    const auto write_rows = [&]<typename Sample>(Sample /*kind*/) {
        std::vector<Sample> inks;
        if (colors_ == Jpeg2000Colors::kCmyk) {
            inks.resize(kInks * static_cast<std::size_t>(size.width));
        }
        for (int y = 0; y < size.height; ++y) {
            auto* const row = reinterpret_cast<Sample*>(to + row_bytes * static_cast<std::size_t>(y));
            if (colors_ == Jpeg2000Colors::kCmyk) {
                write_row(y, kInks, inks.data());
                for (int x = 0; x < size.width; ++x) {
                    cmyk_to_rgb(inks.data() + kInks * x, row + 3 * x);
                }
                continue;
            }
            write_row(y, format.channels, row);
            for (int x = 0; x < size.width && colors_ == Jpeg2000Colors::kYcc; ++x) {
                ycc_to_rgb(row + format.channels * x);
            }
        }
    };
    if (format.sample_bytes == 2) {
        write_rows(std::uint16_t{});
    } else {
        write_rows(std::uint8_t{});
    }
}

}  // namespace spdl
