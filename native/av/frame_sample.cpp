#include "av/frame_sample.h"

#include <utility>

#include "av/frame_filters.h"
#include "av/frame_picker.h"
#include "av/key_frame.h"
#include "av/packet_feed.h"
#include "av/stream_begin.h"
#include "av/video_index.h"
#include "core/interrupt.h"
#include "core/media_error.h"

namespace spdl {
namespace {

[[noreturn]] void raise_missing(std::size_t frame, std::size_t count) {
    throw MediaError("there is no frame " + std::to_string(frame) + ": the packets make " + std::to_string(count));
}

// Where packets do not say when their frames are shown, only decoding all of them tells which are within the window.
std::vector<FramePtr> count_frames(const PacketList& packets, const std::vector<std::size_t>& wanted,
                                   const DecodeOptions& options) {
    FrameReader reader(packets.stream, options, "");
    reader.set_window(packets.window);
    std::vector<FramePtr> picked;
    std::vector<FramePtr> decoded;
    std::size_t count = 0;
    const auto pick = [&] {
        for (FramePtr& frame : decoded) {
            if (picked.size() < wanted.size() && wanted[picked.size()] == count) {
                picked.push_back(std::move(frame));
            }
            ++count;
        }
        decoded.clear();
    };
    for (const PacketPtr& packet : packets.packets) {
        if (picked.size() == wanted.size()) {
            return picked;
        }
        check_interrupt();
        reader.add(*packet, decoded);
        pick();
    }
    reader.flush(decoded);
    pick();
    if (picked.size() < wanted.size()) {
        raise_missing(wanted[picked.size()], count);
    }
    return picked;
}

std::vector<FramePtr> pick_frames(const PacketList& packets, const std::vector<std::size_t>& wanted,
                                  const DecodeOptions& options) {
    VideoIndex index = VideoIndex::of(packets);
    if (!index.timed()) {
        return count_frames(packets, wanted, options);
    }
    ListFeed feed(packets);
    if (may_lack_beginning(index, *packets.stream, is_key(*packets.packets.front(), *packets.stream))) {
        index = without_lost(index, feed, packets.stream, options);
    }
    if (!wanted.empty() && wanted.back() >= index.num_frames()) {
        raise_missing(wanted.back(), index.num_frames());
    }
    FramePicker picker(packets.stream, options, feed, index);
    std::vector<FramePtr> picked;
    picker.pick(wanted, [&](std::size_t /*frame*/, FramePtr decoded) { picked.push_back(std::move(decoded)); });
    return picked;
}

}  // namespace

FrameList sample_frames(const PacketList& packets, const std::vector<std::size_t>& frames, const DecodeOptions& options,
                        const std::string& filters) {
    FrameList found{Medium::kVideo, pick_frames(packets, frames, options), packets.stream->time_base};
    if (!filters.empty()) {
        for (FramePtr& frame : found.frames) {
            frame = filter_frame(*frame, packets.stream->time_base, filters);
        }
    }
    return found;
}

}  // namespace spdl
