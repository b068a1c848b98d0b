#pragma once

#include <optional>

#include "core/bytes.h"
#include "ffmpeg/libav.h"

namespace spdl {

// How the samples of a picture stand for colours.
struct SampleColors {
    AVColorSpace matrix;
    AVColorRange range;
};

// Checks the picture of an AVIF or HEIF, which FFmpeg's demuxer takes for its first tile if it is made of several.
// Throws MediaError for that. Returns what the file says about its colours, if it does: FFmpeg knows only what the
// encoded picture says, which comes second.
std::optional<SampleColors> check_item_picture(Bytes file);

// Has the frame's samples stand for these colours, if they are not red, green and blue by themselves.
void apply_colors(const SampleColors& colors, AVFrame& frame);

}  // namespace spdl
