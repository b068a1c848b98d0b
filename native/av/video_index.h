#pragma once

#include <cstddef>
#include <cstdint>
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
    bool cut_packet = false;        // Whether the last of them is not whole.
};

// Where the frames of a video are: what one look at all packets tells, without decoding any. Immutable once complete.
//
// A packet's position is its place in the order in which packets are decoded. A frame's index is its place in the order
// in which frames are shown.
class VideoIndex {
  public:
    // `times` and `keys` say of each packet when its frame is shown, and whether decoding can begin there.
    // `timed` says whether these are the times when frames are shown, and not only when they are decoded. `begin` is
    // when the first frame is shown if the frames must be counted, and the stream does not begin with it.
    VideoIndex(std::vector<std::int64_t> times, std::vector<std::uint8_t> keys, std::vector<std::uint8_t> hidden,
               bool timed, std::int64_t begin = AV_NOPTS_VALUE);

    // Reads all packets of a stream. The container is then at its end, or where the file is damaged or cut off.
    static VideoIndex scan(Container& container, int stream, FileEnds& ends);

    // Returns an index in which the frames of the packets from `position` on are hidden, and those that are shown after
    // `time`.
    [[nodiscard]] VideoIndex up_to(std::size_t position, std::int64_t time) const;

    // Returns an index in which the frames of these packets are hidden, too, so that the first is shown at `begin`.
    [[nodiscard]] VideoIndex without(const std::vector<std::size_t>& positions, std::int64_t begin) const;

    // Returns the index of the frames within the window of the packets.
    static VideoIndex of(const PacketList& packets);

    [[nodiscard]] std::size_t num_frames() const { return shown_.size(); }
    [[nodiscard]] std::size_t num_packets() const { return times_.size(); }
    [[nodiscard]] const std::vector<std::int64_t>& times() const { return times_; }
    [[nodiscard]] const std::vector<std::uint8_t>& keys() const { return keys_; }
    [[nodiscard]] const std::vector<std::uint8_t>& hidden() const { return hidden_; }

    // Returns whether every packet says when its frame is shown, each at another time. Otherwise frames can only be
    // counted.
    [[nodiscard]] bool timed() const { return timed_; }

    // Returns what the constructor says.
    [[nodiscard]] std::int64_t begin() const { return begin_; }

    // Returns when a frame is shown, in units of the stream's time base.
    [[nodiscard]] std::int64_t time(std::size_t frame) const { return times_[shown_[frame]]; }

    // The same, but frames are counted by the stream's rate if the packets do not say.
    [[nodiscard]] std::int64_t shown_at(std::size_t frame, const Stream& stream) const;

    // Returns when a frame is shown, in seconds. If the packets do not say, frames are counted by the stream's rate.
    [[nodiscard]] double seconds(std::size_t frame, const Stream& stream) const;

    // Returns the position of a frame's packet.
    [[nodiscard]] std::size_t position(std::size_t frame) const { return shown_[frame]; }

    // Returns the position from which a frame can be decoded, at least `keys_back` key frames before it.
    [[nodiscard]] std::size_t start(std::size_t frame, int keys_back) const;

    // Returns the position of the packet that is shown at `time`; num_packets() if there is none.
    [[nodiscard]] std::size_t find(std::int64_t time) const;

    // Returns the last frame that is shown at `time` or before; num_frames() if the first one is later.
    [[nodiscard]] std::size_t frame_at(std::int64_t time) const;

  private:
    [[nodiscard]] std::int64_t counted_from(const Stream& stream) const;

    std::vector<std::int64_t> times_;
    std::vector<std::uint8_t> keys_;
    std::vector<std::uint8_t> hidden_;  // Whether a packet's frame is decoded but not shown.
    std::vector<std::size_t> shown_;    // The positions of the frames that are shown, in that order.
    std::vector<std::size_t> by_time_;  // All positions in the order of their times.
    bool timed_ = true;
    std::int64_t begin_;
};

}  // namespace spdl
