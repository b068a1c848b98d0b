#pragma once

#include <optional>
#include <string>

#include "core/geometry.h"
#include "ffmpeg/libav.h"
#include "media/interpolation.h"

namespace spdl {

// A description of filters that scales pictures, and may convert them to packed RGB or to YUV 4:2:0, as
// get_video_filter_desc writes it, in three parts. Each is in FFmpeg's own syntax.
struct ScaleDescription {
    std::string before;  // Choose frames by their times; "" for none.
    std::string scale;   // Scale, pad, crop, and convert: one frame in, one frame out.
    std::string after;   // Continue, cut and mirror; "" for none.

    // What `scale` says. Sides of 0 are those of the picture.
    Interpolation interpolation = Interpolation::kBicubic;
    AVPixelFormat format = AV_PIX_FMT_NONE;  // That of the picture if none is said.
    std::optional<Size> pad;
    std::optional<Size> crop;    // After scaling.
    std::optional<Size> center;  // Cropped after all of that.
};

// Returns nothing if the description is any other.
std::optional<ScaleDescription> parse_scale_description(const std::string& description);

}  // namespace spdl
