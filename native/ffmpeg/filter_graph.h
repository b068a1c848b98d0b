#pragma once

#include <string>

#include "ffmpeg/libav.h"

namespace spdl {

// Runs one frame through the filters of `description`, FFmpeg's own syntax. Throws MediaError.
FramePtr filter_frame(const AVFrame& frame, AVRational time_base, const std::string& description);

// The first filter in a description that the FFmpeg in use does not have, if any.
std::string missing_filter(const std::string& description);

}  // namespace spdl
