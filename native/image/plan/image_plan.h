#pragma once

#include <optional>

#include "core/geometry.h"
#include "image/resize/resizer.h"
#include "image/write/pixel_writers.h"
#include "media/options.h"
#include "media/place.h"

namespace spdl {

// The place in a decoded image or plane where the input of a resampling begins.
struct Origin {
    int left = 0;
    int top = 0;
};

struct ChromaPlan {
    Origin origin;
    Resampling resampling;
};

// How one image gets from its file to its place in the output.
struct ImagePlan {
    Size canvas;
    int eighths = 8;  // The image is decoded at this fraction of its size.
    Origin origin;
    bool black = false;  // Nothing of the image lies on the canvas.
    Resampling resampling;
    std::optional<ChromaPlan> chroma;  // If planes are resized; `origin` and `resampling` are then those of luma.
    Target target;
};

// The image is decoded at no smaller fraction than `least_eighths`. Throws MediaError if the crop lies outside of the
// image, or the output would be too large.
ImagePlan plan_image(const ImageShape& shape, const LoadOptions& options, const CropAndFlip& crop,
                     int least_eighths = 1);

}  // namespace spdl
