#pragma once

#include "ffmpeg/demux.h"
#include "ffmpeg/libav.h"
#include "media/decode_options.h"

namespace spdl {

// The picture in `image`, in the pixel format in which it is stored. Throws MediaError.
FramePtr decode_picture(const ImagePacket& image, const DecodeOptions& options);

}  // namespace spdl
