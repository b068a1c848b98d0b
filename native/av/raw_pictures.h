#pragma once

#include "ffmpeg/libav.h"

namespace spdl {

// Throws MediaError if whoever reads a file in that format would take raw pictures of a stream, which was added to it,
// for those of another pixel format.
void check_raw_pictures(const AVOutputFormat& format, const AVStream& stream);

}  // namespace spdl
