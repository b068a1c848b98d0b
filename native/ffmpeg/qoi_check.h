#pragma once

#include "core/bytes.h"

namespace spdl {

// Throws MediaError for a QOI whose pixels are not all there: FFmpeg repeats the last one.
void check_qoi(Bytes qoi);

}  // namespace spdl
