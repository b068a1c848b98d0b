#pragma once

#include <cstdint>

#include "ffmpeg/libav.h"

namespace spdl {

// Has the times of a video go on where those of its file begin anew. Files of some containers can be put one behind the
// other (`cat a.ts b.ts`), and recorders set their clock back: what comes later is shown later.
class JoinedTimes {
  public:
    // `looks_up` says whether the demuxer looks up in packets which are key frames.
    explicit JoinedTimes(bool looks_up) : looks_up_(looks_up) {}

    // Moves the times of the stream's next packet behind those of the packets before a place where the clock was set
    // back.
    void follow(AVPacket& packet, const AVStream& stream);

    // Returns whether there was such a place.
    [[nodiscard]] bool joined() const { return joined_; }

  private:
    [[nodiscard]] bool begins_anew(const AVPacket& packet, const AVStream& stream) const;

    bool looks_up_;
    std::int64_t decoded_ = AV_NOPTS_VALUE;  // Of the packets since the last such place, as the file says: the last
    std::int64_t shown_ = AV_NOPTS_VALUE;    // time of decoding and the latest of showing,
    std::int64_t end_ = AV_NOPTS_VALUE;      // and when the last frame ends, which may also be one before that place.
    std::int64_t before_ = AV_NOPTS_VALUE;   // When the last packet is shown.
    std::int64_t moved_ = 0;
    bool waits_ = false;  // Whether a frame is not shown yet that does not say when it will be.
    bool joined_ = false;
};

}  // namespace spdl
