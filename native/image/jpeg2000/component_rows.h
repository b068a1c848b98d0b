#pragma once

#include <openjpeg.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/geometry.h"
#include "media/packed_format.h"

namespace spdl {

// What the samples of a picture mean; alpha may follow the colours.
enum class Jpeg2000Colors {
    kPlain,  // Gray or RGB.
    kYcc,    // The YCbCr of JFIF, with all levels.
    kCmyk,   // Ink, of which the largest value is most.
};

// Writes the rows of a decoded picture as packed pixels.
class ComponentRows {
  public:
    // The picture, or the part of it that was decoded, is halved so often. `place` is what is wanted of it, on its
    // grid, which is halved alike. Each component has samples.
    ComponentRows(const opj_image_t& image, Jpeg2000Colors colors, int halvings, Box place);

    void write(const PackedFormat& format, std::uint8_t* to, std::size_t row_bytes);

  private:
    // Writes the samples of channels from `first` on into pixels of so many `channels`.
    template <typename Sample>
    void write_row(int y, int first, int channels, Sample* to);

    template <typename Sample>
    void write_ycc_row(int y, int channels, Sample* to);

    // Returns a row of a channel with a sample for each pixel.
    [[nodiscard]] const OPJ_INT32* row_of(std::size_t channel, int y);

    const opj_image_t& image_;
    Jpeg2000Colors colors_;
    int halvings_;
    Box place_;
    std::array<std::vector<OPJ_INT32>, 4> repeated_;  // For each channel.
};

}  // namespace spdl
