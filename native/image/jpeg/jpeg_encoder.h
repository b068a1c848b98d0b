#pragma once

#include <string_view>

#include "core/buffer.h"
#include "core/geometry.h"
#include "media/place.h"

namespace spdl {

struct JpegQuality {
    int quality = 75;        // From 1 to 100, as libjpeg scales its tables.
    Size chroma_grid{2, 2};  // How many pixels share a chroma sample.
};

// Returns whether libjpeg-turbo takes pixels of this format.
bool jpeg_takes(std::string_view pixel_format);

// Returns the picture as a JPEG, encoded by libjpeg-turbo with Pillow's settings. Pixels of yuv444p are JPEG's own:
// they use all levels and are not converted. Throws MediaError.
AlignedBuffer encode_jpeg(const Picture& picture, const JpegQuality& quality);

}  // namespace spdl
