#pragma once

#include "core/bytes.h"
#include "image/orientation/metadata_block.h"
#include "media/image_format.h"

namespace spdl {

// Finds the EXIF data and the XMP of an image, where Pillow does. EXIF data may begin with a name of its own. A TIFF is
// its own EXIF data.
ImageMetadata image_metadata(Bytes image, ImageFormat format);

}  // namespace spdl
