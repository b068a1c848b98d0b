#include "av/video_scan.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "av/frame_picker.h"
#include "av/packet_feed.h"
#include "av/stream_begin.h"
#include "core/media_error.h"

namespace spdl {
namespace {

// Returns the first packet from which on frames cannot be decoded. All that is before the last key frame is whole.
std::size_t first_undecodable(Container& container, int stream, const DecodeOptions& options, const VideoIndex& index,
                              std::size_t found) {
    ContainerFeed feed(container, stream, index);
    FramePicker picker(container.stream(stream), options, feed, index);
    const std::size_t last_key = index.num_frames() == 0 ? 0 : index.start(index.num_frames() - 1, 0);
    for (std::size_t frame = 0; frame < index.num_frames(); ++frame) {
        const std::size_t position = index.position(frame);
        if (position < last_key || position >= found) {
            continue;
        }
        try {
            picker.pick({frame}, [](std::size_t /*frame*/, const FramePtr& /*decoded*/) {});
        } catch (const MediaError&) {
            found = position;
        }
    }
    return found;
}

// Returns the time up to which no frame is missing: no packet is shown before it is decoded.
std::int64_t complete_until(const VideoIndex& index, const FileEnds& ends, const Stream& stream, std::size_t count) {
    if (count == 0) {
        return INT64_MIN;
    }
    const std::int64_t decoded = ends.dts[count - 1];
    return decoded != AV_NOPTS_VALUE ? decoded : index.times()[count - 1] - delay_of(stream);
}

}  // namespace

VideoScan scan_video(Container& container, int stream, const DecodeOptions& options) {
    FileEnds ends;
    VideoIndex index = VideoIndex::scan(container, stream, ends);
    if (!ends.damage.empty()) {
        std::size_t whole = first_undecodable(container, stream, options, index, index.num_packets());
        if (!index.timed()) {
            // The last ones may come out of the decoder in place of others that are missing.
            const int held_back = container.stream(stream)->parameters->video_delay;
            whole -= std::min(whole, static_cast<std::size_t>(std::max(held_back, 0)));
        }
        index = index.up_to(whole, complete_until(index, ends, *container.stream(stream), whole));
        if (index.num_frames() == 0) {
            throw MediaError(ends.damage);
        }
    }
    if (may_lack_beginning(index, *container.stream(stream), ends.begins_with_key)) {
        ContainerFeed feed(container, stream, index);
        index = without_lost(index, feed, container.stream(stream), options);
    }
    return {std::move(index), std::move(ends.damage)};
}

}  // namespace spdl
