#pragma once

#include "core/bytes.h"

namespace spdl {

// Throws MediaError for a BMP that FFmpeg decodes to other pixels than Pillow, or of which a part is missing: FFmpeg
// shifts rows, leaves out what run lengths do not say, and reads colours as pixels.
void check_bmp(Bytes bmp);

}  // namespace spdl
