#pragma once

#include "ffmpeg/libav.h"

namespace spdl {

// Gives a frame, which has a format and a size, memory for its pixels, as av_frame_get_buffer does. That of large
// pictures comes from blocks that are used again. Throws std::bad_alloc.
void allocate_picture(AVFrame& frame);

}  // namespace spdl
