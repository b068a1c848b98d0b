#pragma once

#include "core/bytes.h"

namespace spdl {

// FFmpeg decodes some truncated files without an error: a GIF, since version 7, with rows of one colour, a BMP with
// rows that are shifted. Throws MediaError for these. Other damage is left to FFmpeg.
void check_complete(Bytes bytes);

}  // namespace spdl
