#pragma once

#include <cstdint>

#include "ffmpeg/libav.h"

namespace spdl {

// The largest time that is taken for one, in any unit, before and after 0. Whoever adds up such times, or their
// durations, does not overflow. libav's own sums do not either.
inline constexpr std::int64_t kMaxTime = std::int64_t{1} << 60;

// Throws MediaError if a time is out of these bounds. AV_NOPTS_VALUE, which stands for no time, is not.
void check_time(std::int64_t time, const char* what = "the time of a frame");

// Returns after how long the clock of a stream begins anew, in units of its time base; 0 if it does not. FFmpeg adds as
// much to the times behind, and also to those of another file that follows and whose clock is further back: so half of
// it ahead is behind.
std::int64_t clock_period(const AVStream& stream);

// Returns a time in another unit, rounded to the nearest. Throws MediaError if it is out of these bounds in either
// unit.
std::int64_t rescale_time(std::int64_t time, AVRational from, AVRational to);

}  // namespace spdl
