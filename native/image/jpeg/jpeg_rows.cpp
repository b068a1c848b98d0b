#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "image/jpeg/jpeg_state.h"

namespace spdl {
namespace {

// a * b / 255, rounded.
unsigned multiply(unsigned a, unsigned b) {
    const unsigned product = a * b + 128;
    return ((product >> 8U) + product) >> 8U;
}

// Adobe's files, the only ones in use, store the inks inverted. The conversion is Pillow's.
void cmyk_to_rgb(const std::uint8_t* cmyk, std::uint8_t* rgb) {
    const unsigned white = cmyk[3];
    for (int channel = 0; channel < 3; ++channel) {
        rgb[channel] = static_cast<std::uint8_t>(white - multiply(255U - cmyk[channel], white));
    }
}

unsigned wide_sample(const std::uint8_t* row, std::size_t index) {
    std::uint16_t sample = 0;
    std::memcpy(&sample, row + 2 * index, 2);
    return sample;
}

// Stretches samples of up to 16 bits to the levels of others: white becomes white.
class Stretch {
  public:
    Stretch(int bits, unsigned levels) : most_((1U << static_cast<unsigned>(bits)) - 1), levels_(levels) {}

    unsigned operator()(unsigned sample) const { return (std::min(sample, most_) * levels_ + most_ / 2) / most_; }

  private:
    unsigned most_;
    unsigned levels_;
};

// ITU-R 601-2, like JPEG's own luma.
std::uint8_t gray(const std::uint8_t* rgb) {
    return static_cast<std::uint8_t>((19595U * rgb[0] + 38470U * rgb[1] + 7471U * rgb[2] + 32768U) >> 16U);
}

}  // namespace

void JpegState::narrow_row() {
    const int bits = codec.data_precision;
    const std::size_t count =
        static_cast<std::size_t>(codec.output_width) * static_cast<std::size_t>(codec.output_components);
    std::uint8_t* const row = stored_row.data();
    if (bits < 8) {
        const Stretch stretch(bits, 0xff);
        for (std::size_t i = 0; i < count; ++i) {
            row[i] = static_cast<std::uint8_t>(stretch(row[i]));
        }
    } else if (bits > 8) {
        for (std::size_t i = 0; i < count; ++i) {
            row[i] = static_cast<std::uint8_t>(wide_sample(row, i) >> (bits - 8));
        }
    }
}

void JpegState::convert_row(std::uint8_t* to) {
    narrow_row();
    const std::uint8_t* from = stored_row.data();
    const auto width = static_cast<std::size_t>(codec.output_width);
    if (codec.out_color_space == JCS_GRAYSCALE) {
        for (std::size_t x = 0; x < width; ++x) {
            std::fill_n(to + 3 * x, 3, from[x]);
        }
        return;
    }
    const bool inks = codec.out_color_space == JCS_CMYK;
    for (std::size_t x = 0; x < width; ++x, from += inks ? 4 : 3, to += 3) {
        if (inks) {
            cmyk_to_rgb(from, to);
        } else {
            std::copy_n(from, 3, to);
        }
        if (channels == Channels::kBgr) {
            std::swap(to[0], to[2]);
        } else if (channels == Channels::kGray) {
            std::fill_n(to, 3, gray(to));
        }
    }
}

PackedFormat JpegState::packed_format() const {
    const bool wide = codec.data_precision > 8 && codec.num_components != 4;
    return {codec.num_components == 1 ? 1 : 3, wide ? 2 : 1};
}

void JpegState::pack_row(std::uint8_t* to) {
    const PackedFormat format = packed_format();
    const std::size_t count = static_cast<std::size_t>(codec.output_width) * static_cast<std::size_t>(format.channels);
    if (format.sample_bytes == 2) {
        const Stretch stretch(codec.data_precision, 0xffff);
        for (std::size_t i = 0; i < count; ++i) {
            const auto sample = static_cast<std::uint16_t>(stretch(wide_sample(stored_row.data(), i)));
            std::memcpy(to + 2 * i, &sample, 2);
        }
    } else if (format.channels == 1) {
        narrow_row();
        std::memcpy(to, stored_row.data(), count);
    } else {
        convert_row(to);
    }
}

}  // namespace spdl
