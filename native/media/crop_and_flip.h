#pragma once

#include "core/geometry.h"

namespace spdl {

// The crop and the flip of one image.
struct CropAndFlip {
    Box box;  // In the upright image, if the image is turned upright.
    bool flip = false;
};

}  // namespace spdl
