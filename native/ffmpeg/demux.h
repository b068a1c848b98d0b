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

// The first picture of the image (or video) in `bytes`, through libavformat. Nothing else is ever opened, whatever the
// bytes name. Throws MediaError.
ImagePacket demux_picture(Bytes bytes, const DemuxOptions& options);

// The whole of `bytes` as one packet for `codec`.
ImagePacket whole_packet(Bytes bytes, AVCodecID codec);

}  // namespace spdl
