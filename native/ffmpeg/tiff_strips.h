#pragma once

#include <cstdint>

#include "core/bytes.h"
#include "ffmpeg/tiff_description.h"

namespace spdl {

[[nodiscard]] bool is_deflated(const TiffDescription& picture);

// Throws MediaError unless the strips of a picture are in the file, for all of its rows, and the deflated ones inflate
// to what their rows need: FFmpeg shows old memory where they end early.
void check_strips(Bytes tiff, const TiffDescription& picture, std::int64_t max_pixels);

}  // namespace spdl
