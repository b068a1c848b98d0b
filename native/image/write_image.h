#pragma once

#include <cstdint>

#include "image/geometry.h"
#include "image/image_reader.h"
#include "image/interpolation.h"

namespace spdl {

// Decodes and resizes the image of `reader` into the packed RGB canvas at `to`, and blackens what it does not cover.
void write_image(ImageReader& reader, const Placement& placement, Interpolation interpolation, std::uint8_t* to,
                 ThreadScratch& scratch);

}  // namespace spdl
