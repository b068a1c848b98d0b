#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "av/stream.h"
#include "media/time_window.h"

namespace spdl {

// Packets of one stream in the order in which they are decoded. They may begin before the window, since decoding must
// begin at a packet that needs no other.
struct PacketList {
    std::shared_ptr<const Stream> stream;
    std::vector<PacketPtr> packets;
    TimeWindow window;

    [[nodiscard]] std::size_t bytes() const;

    // Returns when the frames within the window are shown, in that order. With `all`, what all packets say, in the
    // order in which they are decoded.
    [[nodiscard]] std::vector<std::int64_t> times(bool all) const;

    // Returns another list that shares the data.
    [[nodiscard]] PacketList clone() const;
};

// Returns whether a packet makes no frame that is shown.
bool is_hidden(const AVPacket& packet, AVCodecID codec);

// Returns whether a packet holds nothing, which decoders would take for the end.
bool is_empty(const AVPacket& packet);

// Returns when a packet is shown, in units of its stream's time base; AV_NOPTS_VALUE if it does not say.
std::int64_t time_of(const AVPacket& packet);

// Return whether a time is before the start of a window, and whether it is not before the end. Both are false for a
// time that is not known.
bool is_before(std::int64_t time, AVRational time_base, const TimeWindow& window);
bool is_after(std::int64_t time, AVRational time_base, const TimeWindow& window);

// Returns the first sample, counted from time 0, that is not before `moment`.
std::int64_t sample_at(const Moment& moment, int rate);

// Returns how long a frame may be decoded before it is shown, in units of the stream's time base.
std::int64_t delay_of(const Stream& stream);

// Returns whether a packet of a stream, and with it all that follow, hold nothing that is shown within a window.
bool is_behind(const AVPacket& packet, const Stream& stream, const TimeWindow& window);

}  // namespace spdl
