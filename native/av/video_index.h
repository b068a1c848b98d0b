#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "av/container.h"
#include "av/packet_list.h"
#include "av/stream.h"

namespace spdl {

// Where the packets of a file begin, and where it ends before its end.
struct FileEnds {
    bool begins_with_key = false;   // Whether decoding can begin with the first packet.
    std::string damage;             // Why it ends before its end; "" for a whole file.
    std::vector<std::int64_t> dts;  // When each packet before that is decoded.
};

// Where the frames of a video are: what one look at all packets tells, without decoding any. Immutable once complete.
//
// A packet's position is its place in the order in which packets are decoded. A frame's index is its place in the order
// in which frames are shown.
class VideoIndex {
  public:
    // `times`, `places` and `keys` say of each packet when its frame is shown, see ShownTimes, where it is in the file,
    // and whether decoding can begin there; where frames are counted, whether it can at the k-th frame that is shown.
    // `timed` says whether each time is that of the packet's own frame. `joined` is what Container says, and `told`
    // what ShownTimes does.
    VideoIndex(std::vector<std::int64_t> times, std::vector<std::int64_t> places, std::vector<std::uint8_t> keys,
               std::vector<std::uint8_t> hidden, bool timed, bool joined, bool told = false);

    // Reads all packets of a stream. The container is then at its end, or where the file is damaged or cut off.
    static VideoIndex scan(Container& container, int stream, FileEnds& ends);

    // Returns an index in which the frames of the packets from `position` on are hidden, and those that are shown after
    // `time`.
    [[nodiscard]] VideoIndex up_to(std::size_t position, std::int64_t time) const;

    // Returns an index in which the frames of these packets are hidden, too. They are the first that are shown. Where
    // frames are counted whose times were not told, those that are left have the first of the times.
    [[nodiscard]] VideoIndex without(const std::vector<std::size_t>& positions) const;

    // Returns the index of the frames within the window of the packets. For `in_parts`, see shown_times().
    static VideoIndex of(const PacketList& packets, bool in_parts = false);

    [[nodiscard]] std::size_t num_frames() const { return shown_.size(); }
    [[nodiscard]] std::size_t num_packets() const { return times_.size(); }
    [[nodiscard]] const std::vector<std::int64_t>& times() const { return times_; }
    [[nodiscard]] const std::vector<std::int64_t>& places() const { return places_; }
    [[nodiscard]] const std::vector<std::uint8_t>& keys() const { return keys_; }
    [[nodiscard]] const std::vector<std::uint8_t>& hidden() const { return hidden_; }

    // Returns whether every packet has a time of its own that no other has. Otherwise a frame can only be found by
    // counting from the beginning.
    [[nodiscard]] bool timed() const { return timed_; }

    // Returns whether the file is several ones, each with a clock of its own, so that only reading it through leads to
    // a packet.
    [[nodiscard]] bool joined() const { return joined_; }

    // Has a packet say what the index does.
    void settle(AVPacket& packet, std::size_t position) const;

    // Returns the stream of such packets.
    [[nodiscard]] std::shared_ptr<const Stream> settled(const std::shared_ptr<const Stream>& stream) const;

    // Returns when a frame is shown, in units of the stream's time base.
    [[nodiscard]] std::int64_t time(std::size_t frame) const { return times_[shown_[frame]]; }

    // Returns when a frame is shown, in seconds.
    [[nodiscard]] double seconds(std::size_t frame, const Stream& stream) const { return stream.seconds(time(frame)); }

    // Returns the position of a frame's packet.
    [[nodiscard]] std::size_t position(std::size_t frame) const { return shown_[frame]; }

    // Returns the position from which a frame can be decoded, at least `keys_back` key frames before it.
    [[nodiscard]] std::size_t start(std::size_t frame, int keys_back) const;

    // Returns the position of the packet that is shown at `time`; num_packets() if there is none.
    [[nodiscard]] std::size_t find(std::int64_t time) const;

    // Returns the last frame that is shown at `time` or before; num_frames() if the first one is later.
    [[nodiscard]] std::size_t frame_at(std::int64_t time) const;

  private:
    std::vector<std::int64_t> times_;
    std::vector<std::int64_t> places_;
    std::vector<std::uint8_t> keys_;
    std::vector<std::uint8_t> hidden_;  // Whether a packet's frame is decoded but not shown.
    std::vector<std::size_t> shown_;    // The positions of the frames that are shown, in that order.
    std::vector<std::size_t> by_time_;  // All positions in the order of their times.
    bool timed_;
    bool joined_;
    bool told_;
};

}  // namespace spdl
