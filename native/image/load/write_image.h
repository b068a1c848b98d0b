#pragma once

#include <cstdint>

#include "image/load/image_reader.h"
#include "image/plan/image_plan.h"

namespace spdl {

// Decodes and resizes the image of `reader` into the canvas at `to`, and blackens what it does not cover.
void write_image(ImageReader& reader, const ImagePlan& plan, const ArrayFormat& format, std::uint8_t* to,
                 ThreadScratch& scratch);

}  // namespace spdl
