#pragma once

#include "core/bytes.h"
#include "media/orientation.h"

namespace spdl {

// What the EXIF data in a JPEG, PNG, WebP or TIFF file says; upright if there is none, or none that makes sense.
Orientation exif_orientation(Bytes image) noexcept;

}  // namespace spdl
