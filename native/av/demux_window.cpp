#include "av/demux_window.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "av/coded_pictures.h"
#include "av/stream_decoder.h"
#include "av/video_index.h"
#include "core/errors.h"

namespace spdl {
namespace {

// The version of a box says whether its times have 8 bytes or 4.
std::size_t take_time_bytes(BoxReader& box) {
    const bool large = box.take(1) == 1;
    box.skip(3);
    return large ? 8 : 4;
}

std::int64_t take_signed(BoxReader& box, std::size_t bytes) {
    const std::uint64_t value = box.take(bytes);
    return bytes == 4 ? static_cast<std::int32_t>(static_cast<std::uint32_t>(value)) : static_cast<std::int64_t>(value);
}

std::vector<std::int64_t> read_edits(Bytes content) {
    BoxReader box(content);
    const std::size_t bytes = take_time_bytes(box);
    const std::uint64_t count = box.take(4);
    std::vector<std::int64_t> edits;
    while (edits.size() < count && !box.rest().empty()) {
        box.skip(bytes);  // How long it is.
        edits.push_back(take_signed(box, bytes));
        box.skip(4);  // How fast.
    }
    return edits;
}

Mp4Track read_track(Peek& file, const PlacedBox& trak) {
    Mp4Track track;
    for_each_box(file, trak, "tkhd", [&](const PlacedBox& header) {
        const std::vector<std::uint8_t> content = read_box(file, header);
        BoxReader box{Bytes(content)};
        box.skip(2 * take_time_bytes(box));
        track.id = box.take(4);
    });
    for_each_box(file, trak, "edts", [&](const PlacedBox& edts) {
        for_each_box(file, edts, "elst",
                     [&](const PlacedBox& list) { track.edits = read_edits(read_box(file, list)); });
    });
    for_each_box(file, trak, "mdia", [&](const PlacedBox& media) {
        for_each_box(file, media, "mdhd", [&](const PlacedBox& header) {
            const std::vector<std::uint8_t> content = read_box(file, header);
            BoxReader box{Bytes(content)};
            box.skip(2 * take_time_bytes(box));
            track.unit = static_cast<std::int64_t>(box.take(4));
        });
    });
    return track;
}

// Returns the packets from where decoding of the window must begin, as the container finds it, up to one after which
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

// Returns whether all packets have the display times of their frames, and these do not go back.
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
        // It is after the window.
    }
    // If pictures are reordered, a key frame is shown later than it is decoded.
    const bool reorders = order.reordered() || list.stream->parameters->video_delay > 0;
    if (reorders && !list.packets.empty() && list.packets.front()->pts == list.packets.front()->dts) {
        return false;
    }
    const std::vector<std::size_t> shown = order.shown();
    return std::ranges::adjacent_find(shown, [&](std::size_t a, std::size_t b) { return times[a] >= times[b]; }) ==
           shown.end();
}

// Returns whether packets may announce frames within the window that build on pictures which are not there, as what
// comes before the first of them is not known.
bool may_announce_lost(const PacketList& list) {
    const Stream& stream = *list.stream;
    if (list.packets.empty()) {
        return false;
    }
    const AVPacket& first = *list.packets.front();
    return !is_key(first, stream) || std::ranges::any_of(list.packets, [&](const PacketPtr& packet) {
        return packet->pts < first.pts && !is_before(packet->pts, stream.time_base, list.window);
    });
}

// Returns an index without the frames at the beginning that nothing makes.
VideoIndex without_lost(const VideoIndex& index, PacketFeed& feed, const std::shared_ptr<const Stream>& stream,
                        bool begins_with_key) {
    return may_lack_beginning(index, *stream, begins_with_key) ? without_lost(index, feed, stream, DecodeOptions{})
                                                               : index;
}

// The positions of packets, from the first on and before the last.
struct Range {
    std::size_t first = 0;
    std::size_t last = 0;
};

// Returns the packets that it takes to decode the frames within a window. If frames are counted, the ones that the
// decoder returns in the meantime belong to them.
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

// Has a packet say that its frame is not shown, so that it is not counted.
void mark_hidden(AVPacket& packet, std::size_t position, const VideoIndex& index) {
    packet.flags |= index.hidden()[position] != 0 ? AV_PKT_FLAG_DISCARD : 0;
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
        mark_hidden(*packet, feed.position(), index);
        list.packets.push_back(std::move(packet));
    } while (feed.position() + 1 < range.last);
    return list;
}

void settle(PacketList& list, const VideoIndex& index) {
    for (std::size_t position = 0; position < list.packets.size(); ++position) {
        index.settle(*list.packets[position], position);
        mark_hidden(*list.packets[position], position, index);
    }
}

// Reads all packets, whether frames can be made of them or not. If frames are counted, only the ones that can count.
PacketList demux_all(Container& container, int stream) {
    PacketList list = read_window(container, stream, {});
    const bool key = !list.packets.empty() && is_key(*list.packets.front(), *list.stream);
    const VideoIndex index = VideoIndex::of(list, container.shows_parts(stream));
    settle(list, index);
    list.stream = index.settled(list.stream);
    if (!index.timed()) {
        ListFeed feed(list);
        settle(list, without_lost(index, feed, list.stream, key));
    }
    return list;
}

PacketList demux_by_index(Container& container, int stream, const TimeWindow& window) {
    FileEnds ends;
    const VideoIndex all = VideoIndex::scan(container, stream, ends);
    const std::shared_ptr<const Stream> described = container.stream(stream);
    ContainerFeed beginning(container, stream, all);
    const VideoIndex index = without_lost(all, beginning, described, ends.begins_with_key);
    const Range range = needed(index, *described, window);
    // Frames after the damage may belong to the window.
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
        if (tells_all(list) && !may_announce_lost(list) && are_in_order(list, container)) {
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

std::vector<Mp4Track> read_tracks(Peek& file) {
    std::vector<Mp4Track> tracks;
    find_box_where(file, [&](const PlacedBox& box) {
        if (!box.is("moov")) {
            return false;
        }
        for_each_box(file, box, "trak", [&](const PlacedBox& trak) { tracks.push_back(read_track(file, trak)); });
        return true;
    });
    return tracks;
}

std::int64_t count_shown_parts(AVIOContext& input, std::int64_t size, int track) {
    Peek file(input, size);
    for (const Mp4Track& each : read_tracks(file)) {
        if (each.id == static_cast<std::uint64_t>(track)) {
            return each.edits.end() - std::ranges::find_if(each.edits, [](std::int64_t begin) { return begin != -1; });
        }
    }
    return 0;
}

PacketList demux_window(Container& container, int stream, const TimeWindow& window) {
    const bool sound = container.stream(stream)->medium == Medium::kAudio;
    return sound ? read_window(container, stream, window) : demux_video(container, stream, window);
}

}  // namespace spdl
