#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/geometry.h"
#include "image/tiff/tiff_file.h"
#include "media/packed_format.h"

namespace spdl {

enum class TiffColors { kGray, kRgb, kPalette, kCmyk, kYcbcr };

enum class TiffNumbers { kUnsigned, kSigned, kFloat };

// What the pixels of a TIFF are.
struct TiffPicture {
    Size size;
    TiffColors colors = TiffColors::kGray;
    bool inverted = false;  // Whether 0 is white.
    TiffNumbers numbers = TiffNumbers::kUnsigned;
    int bits = 1;
    int samples = 1;          // Per pixel.
    int alpha = 0;            // Which of them is alpha; 0 if none is.
    bool multiplied = false;  // Whether the colours have been multiplied by alpha.
    bool planar = false;
    bool deflated = false;
    bool by_libtiff = false;            // Whether libtiff converts the colours.
    bool may_end_early = false;         // Whether a strip's codec may leave rows out.
    std::vector<std::uint8_t> palette;  // Three bytes for each index.
    PackedFormat format;

    // The number of samples that are colours or an index: they come first.
    [[nodiscard]] int color_samples() const;
};

// Reads what the pixels are, and has libtiff convert the colours of JPEG. Throws MediaError if they are not read.
TiffPicture read_tiff_picture(const TiffFile& file);

}  // namespace spdl
