#pragma once

#include "av/stream.h"
#include "ffmpeg/libav.h"

namespace spdl {

// Returns whether key frames are known of a codec without the container: all pictures are, or their headers say so, or
// FFmpeg has a parser that looks into them.
bool containers_need_not_tell_keys(AVCodecID codec);

// Returns whether the picture in a packet says by itself whether decoding can begin with it.
bool tells_itself(const AVPacket& packet, const Stream& stream);

// Returns whether decoding can begin with a packet of a video. What a picture says of itself counts more than what a
// container or a parser does. These also mark pictures of H.264 that need others: after them the picture is refreshed
// bit by bit.
bool is_key(const AVPacket& packet, const Stream& stream);

}  // namespace spdl
