#pragma once

#include "ffmpeg/demux.h"
#include "ffmpeg/libav.h"
#include "media/decode_options.h"

namespace spdl {

// Decodes the picture in `image` to its stored pixel format. Throws MediaError.
FramePtr decode_picture(const ImagePacket& image, const DecodeOptions& options);

}  // namespace spdl
