#pragma once

#include "core/bytes.h"
#include "image/orientation/metadata_block.h"

namespace spdl {

// Finds the metadata of a PNG in all places where Pillow looks for them: a chunk eXIf, or a text as ImageMagick writes
// it, and a text of XMP.
ImageMetadata png_metadata(Bytes png);

}  // namespace spdl
