#pragma once

#include "media/backend.h"

namespace spdl {

// Decodes whatever FFmpeg knows. It accepts every input, so it is the last that is asked.
extern const Backend ffmpeg_backend;

}  // namespace spdl
