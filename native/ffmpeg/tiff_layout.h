#pragma once

#include "ffmpeg/tiff_description.h"

namespace spdl {

// Throws MediaError if FFmpeg does not decode the pixels of a picture as they are meant, with the reason: how they are
// compressed, where they lie, or what their samples are.
void check_layout(Bytes tiff, const TiffDescription& picture);

// Returns whether a picture is of YCbCr with the levels of video, from 16 to 235 and 240.
[[nodiscard]] bool has_video_levels(const TiffDescription& picture);

// Returns whether the colours of a picture were multiplied by its alpha.
[[nodiscard]] bool is_multiplied_by_alpha(const TiffDescription& picture);

}  // namespace spdl
