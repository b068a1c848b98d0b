#pragma once

#include "core/bytes.h"
#include "media/decode_options.h"

namespace spdl {

// Throws MediaError where FFmpeg would give another picture than the TIFF has without a word: black where it does not
// read what is there, and what was in memory before where deflated strips end early.
void check_tiff(Bytes tiff, const DecodeOptions& options);

}  // namespace spdl
