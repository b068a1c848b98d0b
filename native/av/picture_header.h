#pragma once

#include <optional>

#include "core/bytes.h"
#include "ffmpeg/libav.h"

namespace spdl {

// Returns whether the picture in a packet can be decoded without others, as its header says. Nothing for codecs whose
// headers are not known here: the container or FFmpeg's parsers tell.
//
// FFmpeg has no parser for these codecs, or one that does not look at it and takes all pictures for key frames.
std::optional<bool> needs_no_others(AVCodecID codec, Bytes packet);

// Returns whether a packet of MPEG-4 holds a picture that is shown before one that is decoded earlier. FFmpeg knows
// only of those at the beginning of a file. False for other codecs.
bool holds_reordered_picture(AVCodecID codec, Bytes packet);

}  // namespace spdl
