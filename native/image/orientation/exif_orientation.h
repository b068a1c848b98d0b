#pragma once

#include <cstdint>
#include <optional>

#include "core/bytes.h"
#include "media/place.h"

namespace spdl {

// Returns the orientation of a JPEG, PNG, WebP, TIFF or AVIF file as Pillow finds it: in its EXIF data or, if these do
// not mention it, in its XMP. The orientation in the AVIF itself comes first. Upright if none exists, or none that
// makes sense. The page of a TIFF is named by its directory; without one, it is the first.
Orientation exif_orientation(Bytes image, std::optional<std::uint64_t> page = std::nullopt);

}  // namespace spdl
