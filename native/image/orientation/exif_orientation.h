#pragma once

#include "core/bytes.h"
#include "media/orientation.h"

namespace spdl {

// Returns the orientation of a JPEG, PNG, WebP, TIFF or AVIF file as Pillow finds it: in its EXIF data or, if these do
// not mention it, in its XMP. What an AVIF says by itself comes first. Upright if there is none, or none that makes
// sense.
Orientation exif_orientation(Bytes image);

}  // namespace spdl
