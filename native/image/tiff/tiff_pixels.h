#pragma once

#include <cstddef>
#include <cstdint>

#include "image/tiff/tiff_picture.h"

namespace spdl {

// Where samples lie in a row that libtiff has decoded.
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

// Makes pixels of the picture's format of samples that lie side by side: those of colours, then that of alpha.
template <typename Sample>
void make_tiff_pixels(const TiffPicture& picture, const Sample* samples, std::size_t count, Sample* to);

extern template void take_tiff_samples(const TiffPicture&, const TiffRow&, std::uint8_t*, std::size_t);
extern template void take_tiff_samples(const TiffPicture&, const TiffRow&, std::uint16_t*, std::size_t);
extern template void make_tiff_pixels(const TiffPicture&, const std::uint8_t*, std::size_t, std::uint8_t*);
extern template void make_tiff_pixels(const TiffPicture&, const std::uint16_t*, std::size_t, std::uint16_t*);

}  // namespace spdl
