#include "av/shown_times.h"

#include <algorithm>

#include "av/packet_list.h"
#include "ffmpeg/times.h"

namespace spdl {
namespace {

// Returns how long a frame is shown. Sums of these do not overflow.
std::int64_t step_of(const Stream& stream, std::int64_t duration) {
    if (duration <= 0 && stream.frame_rate.num > 0) {
        duration = av_rescale_q(1, av_inv_q(stream.frame_rate), stream.time_base);
    }
    return std::clamp<std::int64_t>(duration, 1, INT32_MAX);
}

// Where one frame at a time waits for those that are decoded after it but shown before, it is shown when the next one
// that waits is decoded. Demuxers may give it the time of the first of those. Another file that follows may have been
// moved so close that its first frame is decoded before the last one of those.
void fill_waiting(const std::vector<PacketTimes>& packets, std::vector<std::int64_t>& times) {
    std::int64_t next_waits = AV_NOPTS_VALUE;
    const PacketTimes* last_at_once = nullptr;  // Of those before the next one that waits.
    for (std::size_t i = packets.size(); i-- > 0;) {
        const PacketTimes& packet = packets[i];
        if (packet.decoded == AV_NOPTS_VALUE) {
            continue;
        }
        if (packet.shown == packet.decoded) {
            last_at_once = last_at_once == nullptr ? &packet : last_at_once;
            continue;
        }
        const bool repeated = i + 1 < packets.size() && packet.shown == packets[i + 1].shown;
        if (packet.shown == AV_NOPTS_VALUE || repeated) {
            const PacketTimes& last = packets.back();
            times[i] = next_waits != AV_NOPTS_VALUE || last.decoded == AV_NOPTS_VALUE ? next_waits
                                                                                      : last.decoded + last.duration;
            if (last_at_once != nullptr && times[i] != AV_NOPTS_VALUE && times[i] <= last_at_once->decoded) {
                times[i] = last_at_once->decoded + last_at_once->duration;
            }
        }
        next_waits = packet.decoded;
        last_at_once = nullptr;
    }
}

// Streams may begin with packets that do not tell all: their frames are shown before the others. Where these are
// reordered, that is so for packets that precede the first key frame. If none tells, or later ones do not, nothing is
// filled.
void fill_beginning(const Stream& stream, const std::vector<PacketTimes>& packets, std::vector<std::int64_t>& times) {
    const bool reorders = stream.parameters->video_delay > 0;
    const auto is_untold = [](std::int64_t time) { return time == AV_NOPTS_VALUE; };
    const auto most = reorders ? std::ranges::find_if(packets, &PacketTimes::key) - packets.begin()
                               : std::ranges::find_if_not(times, is_untold) - times.begin();
    std::int64_t first = INT64_MAX;
    std::ptrdiff_t count = 0;
    for (std::ptrdiff_t i = 0; i < std::ssize(times); ++i) {
        const std::int64_t time = times[static_cast<std::size_t>(i)];
        first = time != AV_NOPTS_VALUE ? std::min(first, time) : first;
        count = time == AV_NOPTS_VALUE ? i + 1 : count;
    }
    if (first == INT64_MAX || count > most) {
        return;
    }
    for (auto i = static_cast<std::size_t>(count); i-- > 0;) {
        if (times[i] == AV_NOPTS_VALUE) {
            first -= step_of(stream, packets[i].duration);
            times[i] = first;
        }
    }
}

// Returns what the packets say; not all do.
std::vector<std::int64_t> told_times(const Stream& stream, const std::vector<PacketTimes>& packets) {
    const bool decoded = stream.times == Times::kDecoded;
    const int delay = stream.parameters->video_delay;
    std::vector<std::int64_t> times;
    times.reserve(packets.size());
    for (const PacketTimes& packet : packets) {
        const bool shown = !decoded && (packet.shown != AV_NOPTS_VALUE || delay > 0);
        times.push_back(shown ? packet.shown : packet.decoded);
    }
    if (!decoded && delay == 1 && stream.makes_up_times) {
        fill_waiting(packets, times);
    }
    fill_beginning(stream, packets, times);
    return times;
}

// Gives the k-th packet that makes a frame the k-th of the times of such.
std::vector<std::int64_t> in_turn(const std::vector<std::int64_t>& told, const std::vector<PacketTimes>& packets) {
    std::vector<std::int64_t> sorted;
    for (std::size_t i = 0; i < told.size(); ++i) {
        if (!packets[i].hidden) {
            sorted.push_back(told[i]);
        }
    }
    std::ranges::sort(sorted);
    std::vector<std::int64_t> times;
    times.reserve(told.size());
    std::size_t next = 0;
    for (std::size_t i = 0; i < told.size(); ++i) {
        times.push_back(next < sorted.size() ? sorted[next] : sorted.empty() ? told[i] : sorted.back());
        next += packets[i].hidden ? std::size_t{0} : std::size_t{1};
    }
    return times;
}

std::vector<std::int64_t> counted_times(const Stream& stream, const std::vector<PacketTimes>& packets) {
    FrameCounter counter(stream);
    for (const PacketTimes& packet : packets) {
        if (!packet.hidden) {
            counter.add(packet);
        }
    }
    std::vector<std::int64_t> times;
    times.reserve(packets.size());
    std::int64_t next = counter.next();
    for (const PacketTimes& packet : packets) {
        times.push_back(next);
        if (!packet.hidden) {
            next = counter.next();
        }
    }
    return times;
}

}  // namespace

PacketTimes times_in(const AVPacket& packet, const Stream& stream) {
    const bool key = (packet.flags & AV_PKT_FLAG_KEY) != 0;
    return {packet.pts, packet.dts, packet.duration, key, is_hidden(packet, stream.parameters->codec_id)};
}

void FrameCounter::add(const PacketTimes& packet) {
    if (told_ == AV_NOPTS_VALUE) {
        const bool both = packet.shown != AV_NOPTS_VALUE && packet.decoded != AV_NOPTS_VALUE;
        delay_ = both && stream_->times != Times::kCounted ? packet.shown - packet.decoded : 0;
        const std::int64_t otherwise = stream_->start != AV_NOPTS_VALUE ? stream_->start : 0;
        const std::int64_t time = packet.shown != AV_NOPTS_VALUE ? packet.shown : packet.decoded;
        told_ = time != AV_NOPTS_VALUE ? time : otherwise;
        step_ = step_of(*stream_, packet.duration);
    }
    if (stream_->times != Times::kNone) {
        waiting_.push_back(stream_->times == Times::kCounted ? packet.shown : packet.decoded);
    }
}

std::int64_t FrameCounter::counted() const {
    if (stream_->frame_rate.num > 0) {
        return told_ + rescale_time(since_, av_inv_q(stream_->frame_rate), stream_->time_base);
    }
    return told_ + since_ * step_;
}

std::int64_t FrameCounter::next() {
    if (!waiting_.empty()) {
        const std::int64_t decoded = waiting_.front();
        waiting_.pop_front();
        // Each is shown after the one before.
        const bool counted = stream_->times == Times::kCounted;
        if (decoded != AV_NOPTS_VALUE && (counted || decoded + delay_ > last_)) {
            told_ = decoded + delay_;
            since_ = 0;
        }
    }
    last_ = counted();
    ++since_;
    return last_;
}

ShownTimes shown_times(const Stream& stream, const std::vector<PacketTimes>& packets, bool reordered, bool in_parts,
                       const std::vector<std::size_t>& order) {
    const bool decoded = stream.times == Times::kDecoded && (stream.parameters->video_delay > 0 || reordered);
    if (stream.times == Times::kNone || stream.times == Times::kCounted || decoded) {
        return {counted_times(stream, packets), false, stream.times == Times::kCounted};
    }
    std::vector<std::int64_t> times = told_times(stream, packets);
    if (std::ranges::find(times, AV_NOPTS_VALUE) != times.end()) {
        return {counted_times(stream, packets), false, false};
    }
    std::vector<std::int64_t> sorted = times;
    std::ranges::sort(sorted);
    const bool unique = std::ranges::adjacent_find(sorted) == sorted.end();
    const auto not_before = [&](std::size_t a, std::size_t b) { return times[a] >= times[b]; };
    const bool contradicted =
        (reordered && sorted == times) || std::ranges::adjacent_find(order, not_before) != order.end();
    if (unique && !in_parts && !contradicted) {
        return {std::move(times), true, true};
    }
    return {in_turn(times, packets), false, true};
}

}  // namespace spdl
