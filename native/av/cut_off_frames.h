#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>

#include "ffmpeg/libav.h"

namespace spdl {

// Tells which frames of AV1 are not shown, as their packets say: an edit list cuts them off. FFmpeg leaves out those of
// other codecs, but not what dav1d decodes. Packets of AV1 make frames in their order.
class CutOffFrames {
  public:
    explicit CutOffFrames(AVCodecID codec) : needed_(codec == AV_CODEC_ID_AV1) {}

    // Takes note of the next packet that is decoded.
    void see(const AVPacket& packet) {
        if (needed_) {
            packets_.push_back({packet.pts, (packet.flags & AV_PKT_FLAG_DISCARD) != 0});
        }
    }

    // Returns whether the next frame is not shown. A packet may make no frame.
    [[nodiscard]] bool hides(const AVFrame& frame) {
        const auto found = std::ranges::find(packets_, frame.pts, &Packet::shown);
        if (found == packets_.end()) {
            return false;
        }
        const bool hidden = found->hidden;
        packets_.erase(packets_.begin(), found + 1);
        return hidden;
    }

    void reset() { packets_.clear(); }

  private:
    struct Packet {
        std::int64_t shown = AV_NOPTS_VALUE;
        bool hidden = false;
    };

    bool needed_;
    std::deque<Packet> packets_;  // Of which no frame has come yet.
};

}  // namespace spdl
