#include "av/shown_times.h"

#include <cstddef>

namespace spdl {
namespace {

// Counts the frames from when the first is decoded, as StreamDecoder does.
std::vector<std::int64_t> counted(const PacketList& list) {
    const Stream& stream = *list.stream;
    const std::int64_t step =
        stream.frame_rate.num > 0 ? av_rescale_q(1, av_inv_q(stream.frame_rate), stream.time_base) : 0;
    const std::int64_t first = list.packets.front()->dts;
    std::int64_t next = first == AV_NOPTS_VALUE ? 0 : first;
    std::vector<std::int64_t> times;
    times.reserve(list.packets.size());
    for (const PacketPtr& packet : list.packets) {
        times.push_back(next);
        if (!is_hidden(*packet, stream.parameters->codec_id)) {
            next += step > 0 ? step : packet->duration;
        }
    }
    return times;
}

}  // namespace

std::vector<std::int64_t> shown_times(const PacketList& packets) {
    const Stream& stream = *packets.stream;
    const int delay = stream.medium == Medium::kVideo ? stream.parameters->video_delay : 0;
    if (stream.medium == Medium::kVideo && !packets.packets.empty() &&
        (!stream.tells_times || (delay > 0 && packets.packets.front()->pts == AV_NOPTS_VALUE))) {
        return counted(packets);
    }
    std::vector<std::int64_t> times(packets.packets.size());
    // Where one frame at a time waits for those that are decoded after it but shown before, it is shown when the next
    // one that waits is decoded.
    std::int64_t next_waits = AV_NOPTS_VALUE;
    for (std::size_t i = times.size(); i-- > 0;) {
        const AVPacket& packet = *packets.packets[i];
        times[i] = time_of(packet);
        if (delay != 1 || packet.dts == AV_NOPTS_VALUE || packet.pts == packet.dts) {
            continue;
        }
        if (packet.pts == AV_NOPTS_VALUE) {
            const AVPacket& last = *packets.packets.back();
            times[i] = next_waits != AV_NOPTS_VALUE ? next_waits : last.dts + last.duration;
        }
        next_waits = packet.dts;
    }
    return times;
}

}  // namespace spdl
