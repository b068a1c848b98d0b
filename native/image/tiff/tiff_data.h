#pragma once

#include "image/tiff/tiff_file.h"
#include "image/tiff/tiff_picture.h"

namespace spdl {

// Throws MediaError if what the file holds of the picture cannot be all of it, however well it is compressed: before
// there is memory for the picture.
void check_tiff_data(const TiffFile& file, const TiffPicture& picture);

}  // namespace spdl
