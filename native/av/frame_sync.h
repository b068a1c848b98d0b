#pragma once

#include "ffmpeg/libav.h"

namespace spdl {

// Returns whether a packet may begin with sound. Of a file that is nothing but frames, one after the other, those do
// that begin with the word for synchronisation; of GSM, whole blocks. All others may.
[[nodiscard]] bool may_begin_sound(const AVPacket& packet, const AVFormatContext& container);

// Returns whether a packet is a header that FFmpeg hands on where another file begins within an Ogg file, and that no
// decoder takes. Throws MediaError if that file cannot be decoded with what is known of the first.
[[nodiscard]] bool is_inner_header(const AVPacket& packet, AVCodecID codec);

}  // namespace spdl
