#pragma once

#include <cstdint>

#include "ffmpeg/libav.h"

namespace spdl {

// Returns whether a file of that size ends before the packets of the streams that are read, or whatever names them, by
// what the container itself says of sizes. Demuxers take such an end for that of a whole file. It is asked at the end
// of reading, and leaves the input where it is.
[[nodiscard]] bool ends_early(AVFormatContext& context, std::int64_t size);

// Returns whether a file of MP4 has fragments, which its header does not name the packets of.
[[nodiscard]] bool has_fragments(AVIOContext& input, std::int64_t size);

// Returns whether a file of MP4 or Matroska may be several, put one behind the other. The index of each does not tell
// of the others.
[[nodiscard]] bool may_be_several(AVFormatContext& context, std::int64_t size);

}  // namespace spdl
