#pragma once

#include "core/geometry.h"
#include "media/array_format.h"
#include "media/interpolation.h"

namespace spdl {

// How every image of a batch is resized, turned and written.
struct LoadOptions {
    Size target;  // A side of 0 is open, as in place().
    Fit fit = Fit::kPad;
    Size center;  // The centre that is then cut out; a side of 0 stays.
    Interpolation interpolation = Interpolation::kBicubic;
    bool flip = false;
    bool exact = true;  // If false, the planes of a JPEG may be resized, and at a fraction of their size, and a resize
                        // may be a level off.
    bool upright = false;  // Turn the image as its EXIF data says.
    ArrayFormat format{};
};

}  // namespace spdl
