#pragma once

#include "core/bytes.h"
#include "media/image_format.h"

namespace spdl {

// FFmpeg decodes some truncated files without an error: a BMP with rows that are shifted, a QOI with the last colour
// over and over. Throws MediaError for these. Other damage is left to FFmpeg.
void check_complete(Bytes bytes, ImageFormat format);

}  // namespace spdl
