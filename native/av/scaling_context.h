#pragma once

#include "core/geometry.h"
#include "ffmpeg/libav.h"
#include "media/interpolation.h"

namespace spdl {

// Returns what libswscale needs to scale pictures like this one and convert them in one step, as FFmpeg's filters scale
// and format do. Null if it does not convert between the formats.
SwsContextPtr make_scaling_context(const AVFrame& like, Size size, AVPixelFormat format, Interpolation interpolation);

}  // namespace spdl
