#pragma once

#include "ffmpeg/libav.h"

namespace spdl {

// Decoders pass on numbers of the file as colour spaces, even if there is no such colour space. Takes those for not
// specified.
void forget_unknown_colors(AVFrame& frame);

}  // namespace spdl
