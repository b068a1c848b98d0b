#pragma once

#include "ffmpeg/libav.h"

namespace spdl {

// Whether the pixels of one format can be those of another without a loss: in another order of channels or bytes, gray
// as three equal channels, or with an alpha channel that was not there, and is opaque.
bool repacks(AVPixelFormat from, AVPixelFormat to);

// Copies the pixels into a frame of the same size, whose format is the same or one that they can be repacked to.
void repack(const AVFrame& from, AVFrame& to);

}  // namespace spdl
