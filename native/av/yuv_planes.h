#pragma once

#include <optional>

#include "ffmpeg/libav.h"
#include "image/planes/yuv_image.h"

namespace spdl {

// Returns a frame as planes of bytes, which belong to it, with its colours: those of 8 bits without alpha, gray or YUV,
// whatever the subsampling. Chroma lies in the middle of its pixels, as FFmpeg's filter scale takes it. Returns nothing
// for all other frames.
std::optional<YuvImage> yuv_planes(const AVFrame& frame);

}  // namespace spdl
