#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "av/frame_reader.h"
#include "av/packet_list.h"
#include "media/decode_options.h"

namespace spdl {

// Decodes chosen frames among those within the window of the packets, which must be in ascending order, and as few
// others as it can. Each goes through filters of its own.
FrameList sample_frames(const PacketList& packets, const std::vector<std::size_t>& frames, const DecodeOptions& options,
                        const std::string& filters);

}  // namespace spdl
