#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "ffmpeg/libav.h"

namespace spdl {

using OptionList = std::vector<std::pair<std::string, std::string>>;

struct DemuxOptions {
    std::string format;  // Empty: found out from the bytes.
    OptionList format_options;
    int buffer_size = 8096;
    std::string bsf;  // Bitstream filters, applied to the packet. Empty: none.

    // Whether a JPEG may be kept as it is, for libjpeg-turbo.
    [[nodiscard]] bool leave_jpeg() const { return format.empty() && format_options.empty() && bsf.empty(); }
};

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
