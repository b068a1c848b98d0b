#pragma once

#include <string>

#include "core/bytes.h"
#include "core/geometry.h"
#include "ffmpeg/libav.h"

namespace spdl {

// By FFmpeg's name. Throws MediaError where there is no such format.
AVPixelFormat find_pixel_format(const std::string& name);

// Pixels in memory, without gaps between rows and planes, as a frame that shows them: they must stay in place as long
// as it lives. Throws MediaError where they are not as many bytes as the picture takes.
FramePtr show_pixels(Bytes pixels, AVPixelFormat format, Size size);

}  // namespace spdl
