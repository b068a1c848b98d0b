#pragma once

#include "ffmpeg/libav.h"

namespace spdl {

// Returns whether a packet may begin with sound. Of a file that is nothing but frames, one after the other, those do
// that begin with the word for synchronisation; of GSM, whole blocks. All others may.
[[nodiscard]] bool may_begin_sound(const AVPacket& packet, const AVFormatContext& container);

}  // namespace spdl
