#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "av/packet_samples.h"
#include "av/sound_index.h"
#include "av/stream.h"
#include "ffmpeg/libav.h"

namespace spdl {

// Returns the same stream with times in samples.
std::shared_ptr<const Stream> count_samples(const Stream& stream);

// Tells where the sound of each packet lies on the time line of its stream, to the sample, from the first packet on.
// The times of many containers are rounded, to milliseconds in Matroska, or wrong for a packet or two; those of joined
// files begin anew. How many samples there are in each packet says more: a packet follows the one before, unless its
// time, and those of the packets behind it, say that something is missing between them.
class SampleClock {
  public:
    // It fills the index, which must live as long, if there is one. `timed` says whether there can be gaps in the file:
    // whether packets have times, and these can be relied on. `period`, in samples, is after how long the file's clock
    // begins anew; 0 says that it does not.
    SampleClock(std::shared_ptr<const Stream> counted, AVRational unit, bool timed, std::int64_t period,
                SoundIndex* index);

    // Takes the next packet.
    void add(PacketPtr packet);

    // Says that there are no more.
    void end() { ended_ = true; }
    [[nodiscard]] bool ended() const { return ended_; }

    // Returns the next packet with its times in samples; null if it takes more packets to know them, or at the end.
    PacketPtr take();

    // Gives a packet its times.
    static void put(AVPacket& packet, std::int64_t place, std::int64_t samples);

  private:
    struct Queued {
        PacketPtr packet;
        std::uint64_t name = 0;            // As the index has it.
        std::optional<std::int64_t> time;  // As the file says, in samples.
        std::int64_t samples = 0;          // As the decoder makes of it, before any are left out,
        std::int64_t begin = 0;            // and how many are left out at the beginning,
        std::int64_t end = 0;              // and at the end.
    };

    [[nodiscard]] std::int64_t first_place() const;
    [[nodiscard]] std::int64_t place();
    [[nodiscard]] bool sees_enough() const;
    [[nodiscard]] bool agrees(std::int64_t time, std::int64_t place) const;
    [[nodiscard]] bool is_taken_back(std::int64_t place) const;

    std::shared_ptr<const Stream> counted_;
    AVRational unit_;  // That of the file's times.
    bool timed_;
    std::int64_t period_;
    std::int64_t allowed_;  // The samples by which a time may be off.
    PacketSamples samples_;
    SoundIndex* index_;
    std::deque<Queued> queue_;
    std::int64_t offset_ = 0;           // What the file's times lack since they went back.
    std::optional<std::int64_t> next_;  // The sample that follows those of the packets so far.
    int usual_ = 0;                     // The samples of the last packet that told them.
    std::int64_t ahead_ = 0;            // The samples of the packets in the queue.
    bool ended_ = false;
};

}  // namespace spdl
