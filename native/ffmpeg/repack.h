#pragma once

#include "ffmpeg/libav.h"

namespace spdl {

// Whether the pixels of one format can be those of another without a loss: in another order of channels or bytes, gray
// as three equal channels, or with an alpha channel that was not there, and is opaque.
bool repacks(AVPixelFormat from, AVPixelFormat to);

// For pixels of 16 bits a sample, red, green and blue, or gray, with or without alpha: the format with the same
// channels of 8 bits. AV_PIX_FMT_NONE for all others.
AVPixelFormat narrow_format(AVPixelFormat format);

// Copies the pixels into a frame of the same size, whose format is the same or one that they can be repacked to. Of
// samples of 16 bits one of 8 keeps the upper half.
void repack(const AVFrame& from, AVFrame& to);

}  // namespace spdl
