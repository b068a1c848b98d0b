#pragma once

#include "ffmpeg/libav.h"

namespace spdl {

// Returns whether pixels of one format can be copied into the other without a loss: channels or bytes in another order,
// gray as three equal channels, or a new alpha channel, which is opaque.
bool repacks(AVPixelFormat from, AVPixelFormat to);

// Returns the format with the same channels of 8 bits, for pixels of 16 bits a sample: red, green and blue, or gray,
// with or without alpha. AV_PIX_FMT_NONE for all others.
AVPixelFormat narrow_format(AVPixelFormat format);

// Copies the pixels into a frame of the same size, whose format is the same or one that they can be repacked to. An
// 8-bit sample gets the upper half of a 16-bit one.
void repack(const AVFrame& from, AVFrame& to);

}  // namespace spdl
