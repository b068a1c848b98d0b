#pragma once

#include "ffmpeg/libav.h"

namespace spdl {

// The factors of a frame's colour matrix, as sws_getCoefficients returns them, and its range.
struct FrameColors {
    const int* matrix;
    bool full_range;
};

// Returns the colours of a frame. What it leaves open is taken as the ffmpeg command takes it.
FrameColors frame_colors(const AVFrame& frame);

// Has a conversion of frames like this one follow their colours.
void follow_colors(SwsContext& context, const AVFrame& frame);

}  // namespace spdl
