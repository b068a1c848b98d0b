#pragma once

#include <string>

#include "ffmpeg/demux.h"
#include "ffmpeg/libav.h"

namespace spdl {

struct DecodeOptions {
    std::string decoder;  // Empty: libavcodec's own choice for the codec.
    OptionList decoder_options;
};

// The picture in `image`, in the pixel format in which it is stored. Throws MediaError.
FramePtr decode_picture(const ImagePacket& image, const DecodeOptions& options);

}  // namespace spdl
