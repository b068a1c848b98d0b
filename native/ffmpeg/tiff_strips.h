#pragma once

#include "core/bytes.h"
#include "media/decode_options.h"

namespace spdl {

// Throws MediaError for a TIFF that FFmpeg decodes to a wrong picture without an error: it shows black for data that it
// does not read, and old memory if deflated strips end early.
void check_tiff(Bytes tiff, const DecodeOptions& options);

}  // namespace spdl
