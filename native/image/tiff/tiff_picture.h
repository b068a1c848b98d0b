#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/geometry.h"
#include "image/tiff/tiff_file.h"
#include "media/pixel_format.h"

namespace spdl {

enum class TiffColors { kGray, kRgb, kPalette, kCmyk, kYcbcr };

enum class TiffNumbers { kUnsigned, kSigned, kFloat };

// The kind of pixels in a TIFF.
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
    bool lossy = false;                 // Whether the codec changes samples.
    bool as_ids = false;                // Whether indices and levels stay the numbers that they are.
    std::vector<std::uint8_t> palette;  // Three bytes for each index.
    PackedFormat format;

    // The number of samples that are colours or an index: they come first.
    [[nodiscard]] int color_samples() const;
};

// Reads what the pixels are, and has libtiff convert the colours of JPEG. Throws MediaError if they are not read.
TiffPicture read_tiff_picture(const TiffFile& file);

// Throws MediaError if what the file holds of the picture cannot be all of it, however well it is compressed: before
// there is memory for the picture.
void check_tiff_data(const TiffFile& file, const TiffPicture& picture);

// Inflates a strip or tile of `row_count` rows by libdeflate, which is twice as fast as zlib, and makes of it what
// libtiff would. Returns false if it does not do so: if the data are compressed in another way, and if anything about
// them is odd. libtiff has zlib inflate them then; its own use of libdeflate shows what was in memory before where data
// are too long.
bool inflate_tiff(const TiffFile& file, const TiffPicture& picture, std::uint32_t number, std::size_t row_bytes,
                  std::size_t row_count, std::uint8_t* to);

// The positions of samples in a row that libtiff has decoded.
struct TiffRow {
    const std::uint8_t* row;
    std::size_t first;  // The sample that is taken first,
    std::size_t step;   // and how far it is to the next.
    std::size_t count;
    bool index = false;  // Whether they are not levels, but indices.
};

// Takes samples of all levels out of a row, in steps of `step`. Sample is a byte, or 16 bits for pictures that have
// more than 8: a byte is then the upper one. Numbers that are signed, floating or of 32 bits are clipped to a byte.
template <typename Sample>
void take_tiff_samples(const TiffPicture& picture, const TiffRow& from, Sample* to, std::size_t step);

// Makes pixels of the picture's format from samples that lie side by side: first the colours, then alpha.
template <typename Sample>
void make_tiff_pixels(const TiffPicture& picture, const Sample* samples, std::size_t count, Sample* to);

extern template void take_tiff_samples(const TiffPicture&, const TiffRow&, std::uint8_t*, std::size_t);
extern template void take_tiff_samples(const TiffPicture&, const TiffRow&, std::uint16_t*, std::size_t);
extern template void make_tiff_pixels(const TiffPicture&, const std::uint8_t*, std::size_t, std::uint8_t*);
extern template void make_tiff_pixels(const TiffPicture&, const std::uint16_t*, std::size_t, std::uint16_t*);

}  // namespace spdl
