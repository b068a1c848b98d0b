#pragma once

#include "ffmpeg/libav.h"

namespace spdl {

// Does what avcodec_open2() does. The decoder of Speex that FFmpeg has of its own takes frames of wide-band sound for
// twice as long as they are since FFmpeg 7, by a number of the stream's header. So it gets none, and goes by a sample
// rate, as it does for Flash video.
int open_decoder(AVCodecContext& context, const AVCodec& decoder, AVDictionary** options);

}  // namespace spdl
