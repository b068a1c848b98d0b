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

    // It can be decoded as planes of YCbCr, where each sample of chroma lies in the middle of its pixels.
    bool planes = false;

    // Decoded at a fraction, a sample is not the mean of those that it stands for, but the first of them, smoothed.
    bool wavelets = false;

    // Returns the fraction of their stored size at which planes of chroma come from a decoder that has them, if luma
    // comes at `eighths` of its own. It is libjpeg's choice: as much more as makes chroma no larger than luma.
    [[nodiscard]] int chroma_eighths(int eighths) const {
        int chroma = eighths;
        while (chroma < 8 && chroma_grid.width * eighths % (2 * chroma) == 0 &&
               chroma_grid.height * eighths % (2 * chroma) == 0) {
            chroma *= 2;
        }
        return chroma;
    }

    [[nodiscard]] Size upright() const { return orientation.upright_size(stored); }
};

}  // namespace spdl
