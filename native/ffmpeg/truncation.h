#pragma once

#include "core/bytes.h"

namespace spdl {

// FFmpeg makes a picture of what is left of some truncated files and says nothing: of a GIF, since version 7, with rows
// of one colour, of a BMP with rows that are shifted. Throws MediaError for these; what else is wrong with them is left
// to FFmpeg.
void check_complete(Bytes bytes);

}  // namespace spdl
