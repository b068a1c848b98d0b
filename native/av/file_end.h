#pragma once

#include <cstdint>
#include <optional>

#include "av/wav_size.h"
#include "ffmpeg/ffmpeg_log.h"
#include "ffmpeg/libav.h"

namespace spdl {

// Throws DamageError at the end of a file that was cut off. `size` is that of the file, `log` is what FFmpeg says at
// the end, and `last_end` is the time at which the packet ends that was read last, if one was read since the last seek.
void check_end(AVFormatContext& context, std::int64_t size, const FfmpegLog& log, std::int64_t last_end,
               const std::optional<WavSize>& cut_wav);

// Returns whether all sound was read that the header of a file promises to the sample. What follows is none.
[[nodiscard]] bool has_all(const AVFormatContext& context, std::int64_t last_end);

}  // namespace spdl
