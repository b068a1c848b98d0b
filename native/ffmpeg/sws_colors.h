#pragma once

#include "ffmpeg/libav.h"

namespace spdl {

// Has a conversion of frames like this one follow their colour matrix and range. What the frame leaves open is taken as
// the ffmpeg command takes it.
void follow_colors(SwsContext& context, const AVFrame& frame);

}  // namespace spdl
