#pragma once

#include <cstdint>

#include "ffmpeg/libav.h"

namespace spdl {

// Returns whether a segment index of MP4 (sidx) says other times than the fragments of a track that it leads to.
// libavformat goes to a fragment by the one and reads on by the other: where they differ, it passes fragments by. A
// file of that size is left where it is being read.
[[nodiscard]] bool has_wrong_segment_index(AVIOContext& input, std::int64_t size, int track);

}  // namespace spdl
