#pragma once

#include "av/stream.h"
#include "ffmpeg/libav.h"

namespace spdl {

// Returns whether decoding can begin with a packet. Containers and parsers also mark pictures of H.264 that need
// others: after them the picture is refreshed bit by bit.
bool is_key(const AVPacket& packet, const AVCodecParameters& video);

}  // namespace spdl
