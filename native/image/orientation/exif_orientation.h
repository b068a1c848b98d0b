#pragma once

#include "core/bytes.h"
#include "media/orientation.h"

namespace spdl {

// Returns the orientation in the EXIF data of a JPEG, PNG, WebP or TIFF file, or in an AVIF file; upright if there is
// none, or none that makes sense.
Orientation exif_orientation(Bytes image);

}  // namespace spdl
