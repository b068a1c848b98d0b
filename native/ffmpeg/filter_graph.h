#pragma once

#include <string>

#include "ffmpeg/libav.h"

namespace spdl {

// Runs one frame through the filters of `description`, which is in FFmpeg's own syntax. Throws MediaError.
FramePtr filter_frame(const AVFrame& frame, AVRational time_base, const std::string& description);

// Returns the first filter in a description that the FFmpeg in use does not have; "" if it has them all.
std::string missing_filter(const std::string& description);

}  // namespace spdl
