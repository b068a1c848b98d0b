#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "av/stream.h"
#include "ffmpeg/libav.h"

namespace spdl {

// Tells where the sound in decoded frames lies: as their times say if these are exact, or one behind the other.
class FrameClock {
  public:
    // With `keep_damaged`, packets may have less in them than they say.
    FrameClock(std::shared_ptr<const Stream> stream, bool keep_damaged)
        : stream_(std::move(stream)), keep_damaged_(keep_damaged) {}

    // Takes note of the next packet that is decoded.
    void see(const AVPacket& packet);

    // Returns where the next frame begins, in samples of its own rate from time 0. Throws MediaError if it is not where
    // the packets say: their samples were counted wrongly.
    std::int64_t place(const AVFrame& frame);

    // Forgets everything, for packets from another place.
    void reset();

  private:
    void check(std::int64_t place, const AVFrame& frame);

    std::shared_ptr<const Stream> stream_;
    bool keep_damaged_;
    std::optional<std::int64_t> next_;
    std::optional<std::int64_t> packet_end_;
    std::set<std::int64_t> gaps_;  // The ends of those in front of the packets that were put in.
};

}  // namespace spdl
