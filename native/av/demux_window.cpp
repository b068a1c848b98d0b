#include "av/demux_window.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "av/packet_feed.h"
#include "av/picture_order.h"
#include "av/video_index.h"
#include "core/media_error.h"

namespace spdl {
namespace {

// Returns the packets from where decoding of the window must begin, as the container finds it, up to one behind which
// nothing is shown within the window.
PacketList read_window(Container& container, int stream, const TimeWindow& window) {
    PacketList list{container.begin(stream, window), {}, window};
    while (PacketPtr packet = container.read()) {
        if (is_behind(*packet, *list.stream, window)) {
            break;
        }
        list.packets.push_back(std::move(packet));
    }
    return list;
}

// Returns whether all packets say of themselves when their frames are shown, and do not go back in time.
bool tells_all(const PacketList& list) {
    std::int64_t decoded = INT64_MIN;
    return list.stream->times == Times::kShown && std::ranges::all_of(list.packets, [&](const PacketPtr& packet) {
               const std::int64_t before = std::exchange(decoded, std::max(decoded, packet->dts));
               return packet->pts != AV_NOPTS_VALUE && (packet->dts == AV_NOPTS_VALUE || packet->dts >= before);
           });
}

// Returns whether the times of packets, and of some that follow, are in the order in which their pictures are shown.
// The container is somewhere else then.
bool are_in_order(const PacketList& list, Container& container) {
    constexpr std::size_t kMostReordered = 16;
    PictureOrder order(*list.stream);
    if (!order.may_reorder()) {
        return true;
    }
    std::vector<std::int64_t> times;
    const auto add = [&](const AVPacket& packet) {
        order.add(packet);
        times.push_back(packet.pts);
    };
    for (const PacketPtr& packet : list.packets) {
        add(*packet);
    }
    try {
        for (std::size_t more = 0; more < kMostReordered; ++more) {
            const PacketPtr packet = container.read();
            if (!packet) {
                break;
            }
            add(*packet);
        }
    } catch (const DamageError&) {
        // It is behind the window.
    }
    // Where pictures are reordered, a key frame is shown later than it is decoded.
    const bool reorders = order.reordered() || list.stream->parameters->video_delay > 0;
    if (reorders && !list.packets.empty() && list.packets.front()->pts == list.packets.front()->dts) {
        return false;
    }
    const std::vector<std::size_t> shown = order.shown();
    return std::ranges::adjacent_find(shown, [&](std::size_t a, std::size_t b) { return times[a] >= times[b]; }) ==
           shown.end();
}

// The positions of packets, from the first on and before the last.
struct Range {
    std::size_t first = 0;
    std::size_t last = 0;
};

// Returns the packets that it takes to decode the frames within a window. Where frames are counted, those that come out
// of the decoder meanwhile belong to them.
Range needed(const VideoIndex& index, const Stream& stream, const TimeWindow& window) {
    constexpr std::size_t kMostReordered = 16;
    Range range{index.num_packets(), 0};
    for (std::size_t frame = 0; frame < index.num_frames(); ++frame) {
        const std::int64_t time = index.time(frame);
        if (is_before(time, stream.time_base, window) || is_after(time, stream.time_base, window)) {
            continue;
        }
        if (index.position(frame) < range.first) {
            range.first = std::min(range.first, index.start(frame, 0));
        }
        range.last = std::max(range.last, index.position(frame) + 1);
    }
    if (range.last == 0) {
        return {};
    }
    return {range.first, std::min(range.last + (index.timed() ? 0 : kMostReordered), index.num_packets())};
}

PacketList take(PacketFeed& feed, const VideoIndex& index, const Range& range, std::shared_ptr<const Stream> stream,
                const TimeWindow& window) {
    PacketList list{index.settled(stream), {}, window};
    if (range.first == range.last) {
        return list;
    }
    feed.seek(range.first);
    do {
        PacketPtr packet = feed.next();
        if (!packet) {
            break;
        }
        list.packets.push_back(std::move(packet));
    } while (feed.position() + 1 < range.last);
    return list;
}

// Reads all packets.
PacketList demux_all(Container& container, int stream) {
    PacketList list = read_window(container, stream, {});
    const VideoIndex index = VideoIndex::of(list, container.shows_parts(stream));
    for (std::size_t position = 0; position < list.packets.size(); ++position) {
        index.settle(*list.packets[position], position);
    }
    list.stream = index.settled(list.stream);
    return list;
}

PacketList demux_by_index(Container& container, int stream, const TimeWindow& window) {
    FileEnds ends;
    const VideoIndex index = VideoIndex::scan(container, stream, ends);
    const std::shared_ptr<const Stream> described = container.stream(stream);
    const Range range = needed(index, *described, window);
    // What is behind the damage may belong to the window.
    const bool behind =
        std::ranges::any_of(ends.dts, [&](std::int64_t time) { return is_after(time, described->time_base, window); });
    if (!ends.damage.empty() && !(behind && range.last < index.num_packets())) {
        throw DamageError(ends.damage);
    }
    ContainerFeed feed(container, stream, index);
    return take(feed, index, range, described, window);
}

PacketList demux_video(Container& container, int stream, const TimeWindow& window) {
    if (window.whole()) {
        return demux_all(container, stream);
    }
    if (container.leads_to_times(stream)) {
        PacketList list = read_window(container, stream, window);
        if (tells_all(list) && are_in_order(list, container)) {
            return list;
        }
    }
    if (container.reads_once()) {
        const PacketList all = demux_all(container, stream);
        const VideoIndex index = VideoIndex::of(all);
        ListFeed feed(all);
        return take(feed, index, needed(index, *all.stream, window), all.stream, window);
    }
    return demux_by_index(container, stream, window);
}

}  // namespace

PacketList demux_window(Container& container, int stream, const TimeWindow& window) {
    const bool sound = container.stream(stream)->medium == Medium::kAudio;
    return sound ? read_window(container, stream, window) : demux_video(container, stream, window);
}

}  // namespace spdl
