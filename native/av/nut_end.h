#pragma once

#include <cstdint>

#include "core/byte_source.h"

namespace spdl {

// Returns whether a NUT file of known size ends within a packet. Its demuxer does not say so: it takes what there is
// for the packet. `last` is where the contents of the last packet begin. The source is at its end then.
bool ends_within_nut_packet(ByteSource& source, std::int64_t last);

}  // namespace spdl
