#pragma once

#include "media/backend.h"

namespace spdl {

// Decodes everything that FFmpeg knows. It accepts every input, so it has to be asked last.
extern const Backend ffmpeg_backend;

}  // namespace spdl
