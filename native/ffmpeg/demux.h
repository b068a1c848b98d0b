#pragma once

#include "core/bytes.h"
#include "ffmpeg/libav.h"
#include "media/demux_options.h"

namespace spdl {

// One encoded image and what its decoder needs to know.
struct ImagePacket {
    PacketPtr packet;
    CodecParametersPtr parameters;
    AVRational time_base{0, 1};
};

// Returns the first picture of the image (or video) in `bytes`, through libavformat. No other file or address is ever
// opened, whatever the bytes name. Throws MediaError.
ImagePacket demux_picture(Bytes bytes, const DemuxOptions& options);

// Returns all of `bytes` as one packet for `codec`.
ImagePacket whole_packet(Bytes bytes, AVCodecID codec);

}  // namespace spdl
