#pragma once

#include "core/geometry.h"
#include "media/orientation.h"

namespace spdl {

// The properties of an image that are known before it is decoded.
struct ImageShape {
    Size stored;
    Orientation orientation;  // Set only if the image is to be turned upright.
    Size chroma_grid{1, 1};   // How many pixels share a chroma sample.
    bool scalable = false;    // Can be decoded at an eighth, a quarter or a half of its size.

    // By FFmpeg's names, if they are known.
    const char* codec = "";
    const char* pixel_format = "";

    [[nodiscard]] Size upright() const { return orientation.upright_size(stored); }
};

}  // namespace spdl
