#pragma once

#include <cstdint>
#include <optional>

#include "av/wav_size.h"
#include "ffmpeg/libav.h"

namespace spdl {

// Returns the size of the sound in a file of that size which was cut off, by what the container says of the bytes of
// sound in it; nothing for complete files, for those that leave the size open, and for containers that do not say it.
// Demuxers take such an end for that of a whole file. It is asked at the end of reading, and leaves the input where it
// is.
[[nodiscard]] std::optional<WavSize> find_cut_sound(AVFormatContext& context, std::int64_t size);

}  // namespace spdl
