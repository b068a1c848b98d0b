#include "av/stream_begin.h"

#include <cstdint>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "av/stream_decoder.h"
#include "core/interrupt.h"
#include "core/media_error.h"

namespace spdl {
namespace {

// Returns whether recordings of a codec are usual.
bool is_recorded(AVCodecID codec) {
    return codec == AV_CODEC_ID_H264 || codec == AV_CODEC_ID_HEVC || codec == AV_CODEC_ID_MPEG1VIDEO ||
           codec == AV_CODEC_ID_MPEG2VIDEO || codec == AV_CODEC_ID_MPEG4;
}

// Decodes from the beginning on. Calls `change` with each packet, and `take` with each frame until it returns false.
void decode(PacketFeed& feed, StreamDecoder& decoder, const std::function<void(AVPacket&)>& change,
            const std::function<bool(const AVFrame&)>& take) {
    feed.seek(0);
    for (bool ended = false;;) {
        while (const FramePtr frame = decoder.get()) {
            if (!take(*frame)) {
                return;
            }
        }
        if (ended) {
            return;
        }
        check_interrupt();
        const PacketPtr packet = feed.next();
        ended = !packet;
        if (packet) {
            change(*packet);
        }
        decoder.add(packet.get());
    }
}

// Returns when the first frame that is decoded is shown; AV_NOPTS_VALUE if there is none.
std::int64_t first_time(PacketFeed& feed, const std::shared_ptr<const Stream>& stream, const DecodeOptions& options) {
    StreamDecoder decoder(stream, options);
    std::int64_t first = AV_NOPTS_VALUE;
    decode(
        feed, decoder, [](AVPacket& /*packet*/) {},
        [&](const AVFrame& frame) {
            first = frame.pts;
            return false;
        });
    return first;
}

// Returns the positions of the frames that are shown before.
std::vector<std::size_t> lost_before(std::int64_t time, const VideoIndex& index) {
    std::vector<std::size_t> lost;
    for (std::size_t frame = 0; frame < index.num_frames() && index.time(frame) < time; ++frame) {
        lost.push_back(index.position(frame));
    }
    return lost;
}

// Returns the positions of the packets at the beginning of which no frame is made. The times of packets may not tell
// when their frames are shown, so they are told apart by their positions. What is shown before a key frame is decoded
// soon after it.
std::vector<std::size_t> lost_by_position(PacketFeed& feed, const VideoIndex& index,
                                          const std::shared_ptr<const Stream>& stream, const DecodeOptions& options) {
    constexpr std::int64_t kMostReordered = 16;
    Stream numbered = with(*stream, copy_parameters(*stream->parameters));
    numbered.times = Times::kShown;
    StreamDecoder decoder(std::make_shared<const Stream>(std::move(numbered)), options);
    std::set<std::int64_t> found;
    std::int64_t first = 0;
    decode(
        feed, decoder, [&](AVPacket& packet) { packet.pts = packet.dts = static_cast<std::int64_t>(feed.position()); },
        [&](const AVFrame& frame) {
            first = found.empty() ? frame.pts : first;
            found.insert(frame.pts);
            return frame.pts <= first + 2 * kMostReordered;
        });
    std::vector<std::size_t> lost;
    for (std::size_t frame = 0; frame < index.num_frames() && !found.empty(); ++frame) {
        const auto position = static_cast<std::int64_t>(index.position(frame));
        if (position <= first + kMostReordered && !found.contains(position)) {
            lost.push_back(index.position(frame));
        }
    }
    return lost;
}

}  // namespace

bool may_lack_beginning(const VideoIndex& index, const Stream& stream, bool begins_with_key) {
    if (index.num_frames() == 0) {
        return false;
    }
    if (index.timed()) {
        return !begins_with_key || index.time(0) < index.times()[0];
    }
    // What a file of such calls a key frame may not be one.
    return is_recorded(stream.parameters->codec_id);
}

VideoIndex without_lost(VideoIndex index, PacketFeed& feed, const std::shared_ptr<const Stream>& stream,
                        const DecodeOptions& options) {
    try {
        const std::int64_t first = first_time(feed, index.settled(stream), options);
        const std::vector<std::size_t> lost =
            index.timed() ? lost_before(first, index) : lost_by_position(feed, index, stream, options);
        if (first != AV_NOPTS_VALUE && !lost.empty() && lost.size() < index.num_frames()) {
            return index.without(lost);
        }
    } catch (const MediaError&) {
        // What is wrong is told when somebody wants a frame.
    }
    return index;
}

}  // namespace spdl
