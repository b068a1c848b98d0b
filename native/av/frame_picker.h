#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "av/packet_feed.h"
#include "av/stream_decoder.h"
#include "av/video_index.h"
#include "media/decode_options.h"

namespace spdl {

// Decodes chosen frames of a video, each exactly, and as few others as it can: from the last key frame before them, or
// from where it is if that is nearer. One thread at a time. All errors are MediaErrors.
class FramePicker {
  public:
    // The feed and the index must live as long as the picker.
    FramePicker(const std::shared_ptr<const Stream>& stream, const DecodeOptions& options, PacketFeed& feed,
                const VideoIndex& index);

    using Take = std::function<void(std::size_t frame, FramePtr decoded)>;

    // Calls `take` for each of these frames, which must be in ascending order, once.
    void pick(const std::vector<std::size_t>& frames, const Take& take);

    // Says that somebody else has used the feed.
    void forget() { next_ = kNone; }

    [[nodiscard]] const StreamDecoder& decoder() const { return decoder_; }

  private:
    static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

    FramePtr decode(std::size_t frame);
    FramePtr decode_from_here(std::size_t frame);
    void go_to(std::size_t position);
    [[nodiscard]] std::size_t frame_of(const AVFrame& decoded);

    StreamDecoder decoder_;
    PacketFeed& feed_;
    const VideoIndex& index_;
    std::size_t next_ = kNone;    // The position of the packet that the feed gives next; kNone if it must be sought.
    std::size_t passed_ = kNone;  // The frame that came out of the decoder last; kNone if none has since go_to().
};

}  // namespace spdl
