#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>

#include "av/container.h"
#include "av/last_packets.h"
#include "av/packet_list.h"
#include "av/sample_clock.h"
#include "media/time_window.h"

namespace spdl {

// Reads the packets that it takes to decode a window of sound, with times that say to the sample where they lie:
// whoever decodes a window gets that part of the whole. Containers whose times are exact are read from where the window
// begins. In others the packets before are looked at, too, but not decoded, unless only the decoder knows how many
// samples they have.
class SoundFeed {
  public:
    // The container must live as long as the feed. Nobody else may use it meanwhile.
    SoundFeed(Container& container, int index, const TimeWindow& window);

    // Returns what is known of the stream, with the unit of the packets' times.
    [[nodiscard]] const std::shared_ptr<const Stream>& stream() const { return stream_; }

    // Returns the next packet; null behind the last one of the window.
    PacketPtr next();

  private:
    PacketPtr read();
    PacketPtr take();
    PacketPtr take_known();
    [[nodiscard]] SoundIndex& known() { return container_.sound_index(index_); }
    void begin();
    bool seek(std::size_t wanted);
    bool seek_from(std::size_t near, std::size_t wanted);
    [[nodiscard]] bool is_before(const AVPacket& packet) const;

    Container& container_;
    int index_;
    TimeWindow window_;
    std::shared_ptr<const Stream> stream_;
    std::optional<SampleClock> clock_;  // Nothing if the container's times are taken.
    std::optional<std::size_t> known_;  // The next packet, if it is in the container's index.
    LastPackets before_;                // What precedes the window.
    PacketPtr first_;                   // The first packet that does not.
    std::exception_ptr failure_;        // What reading ahead has met.
};

// Returns all packets of the feed of a window.
PacketList demux_sound(Container& container, int index, const TimeWindow& window);

}  // namespace spdl
