#pragma once

#include "av/container.h"
#include "av/packet_list.h"
#include "media/time_window.h"

namespace spdl {

// Returns the packets needed to decode the window of one stream. Of a video, they make the frames that the index of the
// whole video has within the window. A file whose own index leads to them is not read further; otherwise all packets
// are looked at.
PacketList demux_window(Container& container, int stream, const TimeWindow& window);

}  // namespace spdl
