#pragma once

#include <string>

#include "ffmpeg/libav.h"

namespace spdl {

// Returns FFmpeg's name of a layout, such as "stereo", whole: that of many channels is long. "" if it has none.
std::string channel_layout_text(const AVChannelLayout& layout);

}  // namespace spdl
