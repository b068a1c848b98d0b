#pragma once

#include <string>

#include "core/bytes.h"
#include "core/geometry.h"
#include "ffmpeg/libav.h"

namespace spdl {

// Returns the format of FFmpeg's that has this name. Throws MediaError if there is none.
AVPixelFormat find_pixel_format(const std::string& name);

// Returns a frame that shows pixels in memory without gaps between rows and planes. They must stay in place as long as
// it lives. Throws MediaError if they are not as many bytes as the picture takes.
FramePtr show_pixels(Bytes pixels, AVPixelFormat format, Size size);

}  // namespace spdl
