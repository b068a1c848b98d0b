#pragma once

#include "core/bytes.h"

namespace spdl {

// Throws MediaError for a JPEG 2000 whose parts do not follow each other to its end: FFmpeg leaves out what it misses.
void check_jpeg2000(Bytes bytes);

}  // namespace spdl
