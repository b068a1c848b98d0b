#pragma once

#include <cstdint>
#include <vector>

#include "av/packet_list.h"

namespace spdl {

// Returns when the frame of each packet is shown, in units of the stream's time base, as a decoder says it of the
// frames. Not all packets say it themselves: in raw streams none do, and in MPEG-PS only the first in each piece of the
// container. Where frames must be counted, the times are those of all frames together, in ascending order.
std::vector<std::int64_t> shown_times(const PacketList& packets);

}  // namespace spdl
