#pragma once

#include <cstddef>
#include <cstdint>

#include "image/tiff/tiff_file.h"
#include "image/tiff/tiff_picture.h"

namespace spdl {

// Inflates a strip or tile of `row_count` rows by libdeflate, which is twice as fast as zlib, and makes of it what
// libtiff would. Returns false if it does not do so: if the data are compressed in another way, and if anything about
// them is odd. libtiff has zlib inflate them then; its own use of libdeflate shows what was in memory before where data
// are too long.
bool inflate_tiff(const TiffFile& file, const TiffPicture& picture, std::uint32_t number, std::size_t row_bytes,
                  std::size_t row_count, std::uint8_t* to);

}  // namespace spdl
