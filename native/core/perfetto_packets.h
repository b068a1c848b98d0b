#pragma once

#include <cstdint>
#include <string_view>
#include <variant>

#include "core/protobuf.h"

namespace spdl::perfetto {

// What a trace that https://ui.perfetto.dev reads consists of. Each function makes one packet, and any row of packets
// is a whole trace: one that was cut short loses its end and nothing else. The fields and their numbers are those of
// Perfetto's trace_packet.proto, track_event.proto and track_descriptor.proto.

// Longer names are cut, so that every packet fits.
inline constexpr std::size_t kLongestName = 512;
using Packet = ProtobufMessage<kLongestName + 128>;

// Nanoseconds of the clock that all packets bear.
std::uint64_t now();

// Ties that clock to the time of day.
Packet clocks();

Packet process(std::uint64_t track, std::int64_t pid, std::string_view name);
Packet thread(std::uint64_t track, std::int64_t pid, std::int64_t tid, std::string_view name);
Packet counter(std::uint64_t track, std::uint64_t process_track, std::string_view name);

Packet begin(std::uint64_t time, std::uint64_t track, std::string_view name);
Packet end(std::uint64_t time, std::uint64_t track);
Packet value(std::uint64_t time, std::uint64_t track, std::variant<std::int64_t, double> value);

}  // namespace spdl::perfetto
