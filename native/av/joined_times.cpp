#include "av/joined_times.h"

#include <algorithm>

#include "ffmpeg/times.h"

namespace spdl {
namespace {

// Returns how long a frame is shown.
std::int64_t step_of(const AVPacket& packet, const AVStream& stream) {
    if (packet.duration > 0) {
        return packet.duration;
    }
    const AVRational rate = stream.avg_frame_rate;
    return rate.num > 0 && rate.den > 0 ? av_rescale_q(1, av_inv_q(rate), stream.time_base) : 1;
}

}  // namespace

// Decoding never goes back in time, and a key frame is shown after all that is decoded before it; whether decoding can
// begin with a packet, only some demuxers look up in it. Times that they make up for packets may go back a little.
bool JoinedTimes::begins_anew(const AVPacket& packet, const AVStream& stream) const {
    const bool key = (packet.flags & AV_PKT_FLAG_KEY) != 0;
    const AVRational time_base = stream.time_base;
    if (const std::int64_t period = clock_period(stream); period > 0 && decoded_ != AV_NOPTS_VALUE &&
                                                          packet.dts != AV_NOPTS_VALUE &&
                                                          packet.dts - decoded_ > period / 2) {
        return true;
    }
    if (decoded_ != AV_NOPTS_VALUE && packet.dts != AV_NOPTS_VALUE && packet.dts < decoded_) {
        constexpr AVRational kLittle{1, 10};
        const bool far = av_compare_ts(decoded_ - packet.dts, time_base, kLittle.num, {1, kLittle.den}) > 0;
        return key || (looks_up_ && far);
    }
    const std::int64_t before = looks_up_ ? std::max(shown_, decoded_) : decoded_;
    return key && packet.pts != AV_NOPTS_VALUE && packet.pts < before;
}

void JoinedTimes::follow(AVPacket& packet, const AVStream& stream) {
    const std::int64_t step = step_of(packet, stream);
    // The first frame is shown that long after its packet is decoded.
    const std::int64_t delay = stream.codecpar->video_delay * step;
    if (begins_anew(packet, stream)) {
        // Further from it are only those that others precede, as in the middle of a recording.
        const bool both = packet.pts != AV_NOPTS_VALUE && packet.dts != AV_NOPTS_VALUE;
        if (both) {
            packet.dts = std::min(packet.dts, packet.pts);  // Demuxers may have made it up from those before.
        }
        const std::int64_t most = looks_up_ ? delay : kMaxTime;
        const std::int64_t ahead = both ? std::clamp<std::int64_t>(packet.pts - packet.dts, 0, most) : 0;
        moved_ = end_ - ahead - (packet.dts != AV_NOPTS_VALUE ? packet.dts : packet.pts);
        shown_ = AV_NOPTS_VALUE;
        joined_ = true;
    }
    decoded_ = packet.dts != AV_NOPTS_VALUE ? packet.dts : decoded_;
    shown_ = packet.pts != AV_NOPTS_VALUE ? std::max(packet.pts, shown_) : shown_;
    packet.pts += packet.pts != AV_NOPTS_VALUE ? moved_ : 0;
    packet.dts += packet.dts != AV_NOPTS_VALUE ? moved_ : 0;
    if (packet.pts != AV_NOPTS_VALUE) {
        end_ = std::max(end_, packet.pts + step);
    }
    // A frame that does not say when it is shown, or says it of the one behind it, is so when the next one is decoded
    // that is not shown at once.
    waits_ = packet.pts == AV_NOPTS_VALUE || packet.pts == before_ || (waits_ && packet.pts == packet.dts);
    before_ = packet.pts;
    if (waits_ && packet.dts != AV_NOPTS_VALUE) {
        end_ = std::max(end_, packet.dts + step + delay);
    }
}

}  // namespace spdl
