#pragma once

#include "av/stream.h"
#include "ffmpeg/libav.h"
#include "media/decode_options.h"

namespace spdl {

// Returns an open decoder for a stream, with one thread. Throws MediaError if there is none, or it does not take the
// options.
CodecContextPtr make_decoder(const Stream& stream, const DecodeOptions& options);

}  // namespace spdl
