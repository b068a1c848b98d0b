#pragma once

#include <cstdint>
#include <deque>

#include "ffmpeg/libav.h"

namespace spdl {

// Returns whether the decoder of a sound depends on all that came before, so that a part is decoded from the beginning.
bool depends_on_all(const AVCodecParameters& sound);

// Keeps the last packets of sound: as many as must be decoded before what follows them, since decoders build on what
// came before.
class LastPackets {
  public:
    explicit LastPackets(const AVCodecParameters& sound);

    // Returns how many samples there are in them, if there were so many.
    [[nodiscard]] std::int64_t least() const { return least_; }

    // Takes the next packet, whose duration is `samples`.
    void add(PacketPtr packet, std::int64_t samples);

    // Takes out the first one; null if there is none.
    PacketPtr take();

  private:
    struct Kept {
        PacketPtr packet;
        std::int64_t samples;
    };

    std::int64_t least_;
    std::int64_t samples_ = 0;
    std::deque<Kept> packets_;
};

}  // namespace spdl
