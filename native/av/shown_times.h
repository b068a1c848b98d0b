#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "av/stream.h"
#include "ffmpeg/libav.h"

namespace spdl {

// What a packet of a video says of times, in units of its stream's time base.
struct PacketTimes {
    std::int64_t shown = AV_NOPTS_VALUE;    // When its frame is shown,
    std::int64_t decoded = AV_NOPTS_VALUE;  // and when it is decoded.
    std::int64_t duration = 0;
    bool key = false;
    bool hidden = false;  // Whether its frame is not shown.
};

PacketTimes times_in(const AVPacket& packet, const Stream& stream);

// Counts frames in the order in which they are shown: the k-th is shown when the k-th packet is decoded, and all of
// them as much later as the first packet says. Where packets do not say when they are decoded, the stream's rate
// counts.
class FrameCounter {
  public:
    // The stream must live as long as this object.
    explicit FrameCounter(const Stream& stream) : stream_(&stream) {}

    // Takes the next packet that makes a frame, in the order in which packets are decoded.
    void add(const PacketTimes& packet);

    // Returns when the next frame is shown.
    std::int64_t next();

  private:
    [[nodiscard]] std::int64_t counted() const;

    const Stream* stream_;
    std::deque<std::int64_t> waiting_;    // What the packets say whose turn is not there yet: when they are decoded.
    std::int64_t delay_ = 0;              // How long after its packet is decoded a frame is shown.
    std::int64_t told_ = AV_NOPTS_VALUE;  // When the last frame is shown of which a packet tells,
    std::int64_t since_ = 0;              // and how many have followed it.
    std::int64_t last_ = AV_NOPTS_VALUE;  // What next() has returned.
    std::int64_t step_ = 0;               // The duration of a packet.
};

// When the frames of packets are shown, in units of the stream's time base and in the order in which the packets are
// decoded.
struct ShownTimes {
    std::vector<std::int64_t> times;
    // Whether each time is that of the packet's own frame, and of no other. Otherwise frames must be counted, from the
    // first packet on, and these are the times of all of them together, in ascending order.
    bool own = true;
    // Whether packets told all of them, so that the others keep theirs where a frame is not made.
    bool told = true;
};

// Says when each frame of a video is shown. Nothing else says so: what reads files, windows and lists of packets asks
// here, and decoders that are given packets one by one count as this does.
//
// Not all packets say it themselves: in raw streams none do, those of AVI only say when they are decoded, and in
// MPEG-PS only the first in each piece of the container says all. In files that were made of such ones without encoding
// they say something else: two the same, or when they are decoded although the pictures are `reordered`. Then the k-th
// frame has the k-th of the times. `order` has the positions of all packets as the pictures say that they are shown, or
// nothing if that need not be looked at. In turn are also the times where a file shows several parts of a video one
// after the other, `in_parts`: the last frames of one may have later times than the first ones of the next.
ShownTimes shown_times(const Stream& stream, const std::vector<PacketTimes>& packets, bool reordered, bool in_parts,
                       const std::vector<std::size_t>& order);

}  // namespace spdl
