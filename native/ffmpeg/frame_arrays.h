#pragma once

#include <span>

#include "core/buffer.h"
#include "image/load/encoded_image.h"

namespace spdl {

// The image as one array: in `memory` where there is one, otherwise without a copy where the frame already is one.
Buffer convert_image(DecodedImage image, const Memory* memory);

// The images, all of one size and pixel format, one after the other along a new first axis.
Buffer convert_images(std::span<const DecodedImage* const> images, const Memory* memory);

}  // namespace spdl
