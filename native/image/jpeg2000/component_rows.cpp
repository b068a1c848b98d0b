#include "image/jpeg2000/component_rows.h"

#include <algorithm>
#include <array>
#include <limits>

namespace spdl {
namespace {

constexpr int kInks = 4;
constexpr std::size_t kColors = 3;

template <typename Sample>
constexpr std::int32_t kMost = std::numeric_limits<Sample>::max();

template <typename Sample>
constexpr int kBits = std::numeric_limits<Sample>::digits;

// The samples of a component as levels from 0 on.
class Levels {
  public:
    explicit Levels(const opj_image_comp_t& component)
        : bits_(static_cast<int>(component.prec)),
          lowest_(component.sgnd != 0 ? -(std::int64_t{1} << (bits_ - 1)) : 0),
          most_((std::int64_t{1} << bits_) - 1) {}

    [[nodiscard]] int bits() const { return bits_; }

    std::int64_t operator()(OPJ_INT32 sample) const { return std::clamp<std::int64_t>(sample - lowest_, 0, most_); }

  private:
    int bits_;
    std::int64_t lowest_;
    std::int64_t most_;
};

// White becomes white: fewer bits are stretched, and of more the upper ones are kept.
template <typename Sample>
Sample sample_of(std::int64_t level, int bits) {
    if (bits >= kBits<Sample>) {
        return static_cast<Sample>(level >> (bits - kBits<Sample>));
    }
    const std::int64_t most = (std::int64_t{1} << bits) - 1;
    return static_cast<Sample>((level * kMost<Sample> + most / 2) / most);
}

template <typename Sample>
void write_samples(const opj_image_comp_t& component, const OPJ_INT32* from, std::size_t count, int step, Sample* to) {
    const auto pixels = [&](const auto& convert) {
        for (std::size_t x = 0; x < count; ++x, to += step) {
            *to = convert(from[x]);
        }
    };
    const Levels level(component);
    if (level.bits() == kBits<Sample> && component.sgnd == 0) {
        pixels([](OPJ_INT32 sample) { return static_cast<Sample>(sample); });
    } else {
        pixels([=](OPJ_INT32 sample) { return sample_of<Sample>(level(sample), level.bits()); });
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

// Converts YCbCr of other than 8 bits as it is, before bits are cut or levels are stretched.
template <typename Sample>
void write_ycc(const opj_image_comp_t* components, const std::array<const OPJ_INT32*, kColors>& rows, std::size_t count,
               int step, Sample* to) {
    const std::array<Levels, kColors> levels{Levels(components[0]), Levels(components[1]), Levels(components[2])};
    const int bits = std::max({levels[0].bits(), levels[1].bits(), levels[2].bits()});
    const auto most = static_cast<double>((std::int64_t{1} << bits) - 1);
    const auto middle = static_cast<double>(std::int64_t{1} << (bits - 1));
    for (std::size_t x = 0; x < count; ++x, to += step) {
        const auto level = [&](std::size_t i) {
            return static_cast<double>(levels[i](rows[i][x]) << (bits - levels[i].bits()));
        };
        const auto sample = [=](double value) {
            return sample_of<Sample>(static_cast<std::int64_t>(std::clamp(value + 0.5, 0.0, most)), bits);
        };
        const double luma = level(0);
        const double blue = level(1) - middle;
        const double red = level(2) - middle;
        to[0] = sample(luma + 1.402 * red);
        to[1] = sample(luma - 0.344136 * blue - 0.714136 * red);
        to[2] = sample(luma + 1.772 * blue);
    }
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

const OPJ_INT32* ComponentRows::row_of(std::size_t channel, int y) {
    const opj_image_comp_t& component = image_.comps[channel];
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
    std::vector<OPJ_INT32>& repeated = repeated_[channel];
    repeated.resize(static_cast<std::size_t>(size.width));
    for (int x = 0; x < size.width; ++x) {
        repeated[static_cast<std::size_t>(x)] = row[index(place_.left + x, component.dx, component.x0, component.w)];
    }
    return repeated.data();
}

template <typename Sample>
void ComponentRows::write_row(int y, int first, int channels, Sample* to) {
    for (int channel = first; channel < channels; ++channel) {
        const auto index = static_cast<std::size_t>(channel);
        write_samples(image_.comps[index], row_of(index, y), static_cast<std::size_t>(place_.size().width), channels,
                      to + channel);
    }
}

template <typename Sample>
void ComponentRows::write_ycc_row(int y, int channels, Sample* to) {
    const auto count = static_cast<std::size_t>(place_.size().width);
    const auto has_bytes = [](const opj_image_comp_t& component) {
        return static_cast<int>(component.prec) == kBits<std::uint8_t>;
    };
    if constexpr (sizeof(Sample) == 1) {
        if (std::all_of(image_.comps, image_.comps + kColors, has_bytes)) {
            write_row(y, 0, channels, to);
            for (std::size_t x = 0; x < count; ++x) {
                ycc_to_rgb(to + static_cast<std::size_t>(channels) * x);
            }
            return;
        }
    }
    write_ycc(image_.comps, {row_of(0, y), row_of(1, y), row_of(2, y)}, count, channels, to);
    write_row(y, kColors, channels, to);
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
            if (colors_ == Jpeg2000Colors::kYcc) {
                write_ycc_row(y, format.channels, row);
            } else if (colors_ == Jpeg2000Colors::kCmyk) {
                write_row(y, 0, kInks, inks.data());
                for (int x = 0; x < size.width; ++x) {
                    cmyk_to_rgb(inks.data() + kInks * x, row + 3 * x);
                }
            } else {
                write_row(y, 0, format.channels, row);
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
