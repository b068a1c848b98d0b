#pragma once

#include <cstdint>

#include "core/buffer.h"
#include "core/geometry.h"
#include "media/pixel_format.h"

namespace spdl {

// Moves an image of packed pixels, of three bytes each, within its canvas. A pixel becomes the nearest one, halves to
// even, or with `blend` what lies between four of them. Outside of the image there is `pad`. `before` is a thread's
// memory for the pixels that are read.
void move_pixels(const AffineMap& map, bool blend, const PixelBytes& pad, std::uint8_t* pixels, Size size,
                 AlignedBuffer& before);

}  // namespace spdl
