#pragma once

#include <cstdint>

#include "core/bytes.h"

namespace spdl {

// Reads through the JPEG that another library is to decode, and throws MediaError if it is truncated or damaged: FFmpeg
// makes a picture of what there is and paints the rest, without an error. Bytes that are no JPEG pass, and so do JPEGs
// of the kinds that libjpeg-turbo does not read.
void check_jpeg(Bytes bytes, std::int64_t max_pixels);

}  // namespace spdl
