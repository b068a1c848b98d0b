#pragma once

#include "media/backend.h"

namespace spdl {

// Decodes what FFmpeg knows, where it is named or options ask for something that only FFmpeg has.
extern const Backend ffmpeg_backend;

}  // namespace spdl
