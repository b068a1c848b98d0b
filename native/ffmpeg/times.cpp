#include "ffmpeg/times.h"

#include <string>

#include "core/media_error.h"

namespace spdl {
namespace {

bool is_sane(std::int64_t time) {
    return time >= -kMaxTime && time <= kMaxTime;
}

std::string describe(std::int64_t time, AVRational unit) {
    return std::to_string(time) + " x " + std::to_string(unit.num) + "/" + std::to_string(unit.den) + " s";
}

}  // namespace

void check_time(std::int64_t time, const char* what) {
    if (time != AV_NOPTS_VALUE && !is_sane(time)) {
        throw MediaError(std::string(what) + " is " + std::to_string(time) +
                         " units, which no clip can have: at most 2**60 are taken, before or after 0");
    }
}

std::int64_t clock_period(const AVStream& stream) {
    constexpr int kMostBits = 40;  // In milliseconds, a lifetime.
    const int bits = stream.pts_wrap_bits;
    return bits > 0 && bits <= kMostBits ? std::int64_t{1} << bits : 0;
}

std::int64_t rescale_time(std::int64_t time, AVRational from, AVRational to) {
    // libav returns the least number if there is none for the result.
    const std::int64_t found = is_sane(time) ? av_rescale_q(time, from, to) : AV_NOPTS_VALUE;
    if (!is_sane(found)) {
        throw MediaError("the time of a frame, " + describe(time, from) + ", is one that no clip can have: at most " +
                         "2**60 units of " + std::to_string(to.num) + "/" + std::to_string(to.den) +
                         " s are taken, before or after 0");
    }
    return found;
}

}  // namespace spdl
