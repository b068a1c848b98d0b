#include "av/packet_list.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "av/packet_samples.h"
#include "av/video_index.h"

namespace spdl {
namespace {

// Returns the sign of `time - moment`.
int compare(std::int64_t time, AVRational time_base, const Moment& moment) {
    return av_compare_ts(time, time_base, moment.numerator, {1, moment.denominator});
}

}  // namespace

bool is_empty(const AVPacket& packet) {
    return packet.size == 0 && packet.side_data_elems == 0;
}

bool is_hidden(const AVPacket& packet, AVCodecID codec) {
    // Some encoders of VP8 send pictures that are never shown, for others to build on. The packet's first byte says so
    // (RFC 6386, 9.1).
    constexpr unsigned kShown = 0x10;
    const bool vp8 = codec == AV_CODEC_ID_VP8 && packet.size > 0 && (packet.data[0] & kShown) == 0;
    return vp8 || is_empty(packet) || (packet.flags & AV_PKT_FLAG_DISCARD) != 0;
}

std::int64_t time_of(const AVPacket& packet) {
    return packet.pts != AV_NOPTS_VALUE ? packet.pts : packet.dts;
}

bool is_before(std::int64_t time, AVRational time_base, const TimeWindow& window) {
    return time != AV_NOPTS_VALUE && window.start && compare(time, time_base, *window.start) < 0;
}

bool is_after(std::int64_t time, AVRational time_base, const TimeWindow& window) {
    return time != AV_NOPTS_VALUE && window.end && compare(time, time_base, *window.end) >= 0;
}

std::int64_t sample_at(const Moment& moment, int rate) {
    return av_rescale_q_rnd(moment.numerator, {1, moment.denominator}, {1, rate}, AV_ROUND_UP);
}

std::int64_t delay_of(const Stream& stream) {
    const int frames = stream.medium == Medium::kVideo ? stream.parameters->video_delay : 0;
    return stream.frame_rate.num > 0 ? av_rescale_q(frames, av_inv_q(stream.frame_rate), stream.time_base) : frames;
}

bool is_behind(const AVPacket& packet, const Stream& stream, const TimeWindow& window) {
    // A frame is never shown before it is decoded.
    if (is_counted(stream)) {
        return false;
    }
    const std::int64_t ahead = packet.pts == AV_NOPTS_VALUE ? delay_of(stream) : 0;
    return packet.dts != AV_NOPTS_VALUE && is_after(packet.dts - ahead, stream.time_base, window);
}

std::size_t PacketList::bytes() const {
    std::size_t size = 0;
    for (const PacketPtr& packet : packets) {
        size += static_cast<std::size_t>(packet->size);
    }
    return size;
}

std::vector<std::int64_t> PacketList::times(bool all) const {
    std::vector<std::int64_t> found;
    found.reserve(packets.size());
    if (all) {
        std::ranges::transform(packets, std::back_inserter(found),
                               [](const PacketPtr& each) { return time_of(*each); });
        return found;
    }
    const VideoIndex index = VideoIndex::of(*this);
    for (std::size_t frame = 0; frame < index.num_frames(); ++frame) {
        found.push_back(index.time(frame));
    }
    return found;
}

PacketList PacketList::clone() const {
    PacketList copy{stream, {}, window};
    copy.packets.reserve(packets.size());
    for (const PacketPtr& packet : packets) {
        copy.packets.push_back(reference(*packet));
    }
    return copy;
}

}  // namespace spdl
