#pragma once

#include "core/geometry.h"
#include "media/array_format.h"
#include "media/interpolation.h"

namespace spdl {

// What is to become of every image of a batch.
struct LoadOptions {
    Size target;  // A side of 0 is left open, as in place().
    Fit fit = Fit::kPad;
    Size center;  // What is then cut out; a side of 0 stays.
    Interpolation interpolation = Interpolation::kBicubic;
    bool flip = false;
    bool exact = true;     // Otherwise a JPEG may be decoded at a fraction of its size, and the resize be a level off.
    bool upright = false;  // Turned as its EXIF data says.
    ArrayFormat format{};
};

}  // namespace spdl
