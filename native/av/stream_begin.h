#pragma once

#include <cstdint>
#include <vector>

#include "av/packet_list.h"
#include "av/stream.h"

namespace spdl {

// Finds the packets at the beginning of a video that no decoder can make frames of. Recordings begin anywhere: what
// follows up to the first key frame builds on what was before, and so may frames that are decoded after it but shown
// before.
class StreamBegin {
  public:
    // The stream must live as long as this object.
    explicit StreamBegin(const Stream& stream) : stream_(stream) {}

    // Takes the next packet, and returns whether it lacks what was before the beginning.
    bool lacks_others(const AVPacket& packet);

    // Returns whether there was a packet to begin with.
    [[nodiscard]] bool found() const { return keys_ > 0; }

    // Returns whether recordings begin anywhere in the streams of a codec.
    static bool applies_to(AVCodecID codec);

  private:
    [[nodiscard]] bool builds_on_lost(const AVPacket& packet) const;

    const Stream& stream_;
    int keys_ = 0;  // So far.
    std::int64_t key_time_ = AV_NOPTS_VALUE;
    bool closed_ = false;  // Whether the first key frame says that what follows it builds on nothing before it.
};

// Returns which packets of a list make no frame that is shown, for whatever reason.
std::vector<std::uint8_t> hidden_packets(const PacketList& packets);

}  // namespace spdl
