#pragma once

#include "ffmpeg/libav.h"
#include "media/decode_options.h"
#include "media/demux_options.h"
#include "media/encoded_image.h"

namespace spdl {

// Decodes the whole image to its stored pixel format. Throws MediaError.
FramePtr decode_stored(const EncodedImage& image, const DemuxOptions& demux, const DecodeOptions& decode);

// Returns the unit of the timestamps of such a frame.
AVRational time_base(const EncodedImage& image);

}  // namespace spdl
