#pragma once

#include "ffmpeg/libav.h"
#include "media/decode_options.h"
#include "media/demux_options.h"
#include "media/encoded_image.h"

namespace spdl {

// The whole image in the pixel format in which it is stored. Throws MediaError.
FramePtr decode_stored(const EncodedImage& image, const DemuxOptions& demux, const DecodeOptions& decode);

// The unit of the timestamps of such a frame.
AVRational time_base(const EncodedImage& image);

}  // namespace spdl
