#pragma once

#include <cstdint>

#include "image/load/thread_scratch.h"
#include "image/plan/image_plan.h"
#include "media/decoder.h"

namespace spdl {

// Decodes and resizes the open image of `decoder` into the canvas at `to`, and blackens what it does not cover.
void write_image(Decoder& decoder, const ImagePlan& plan, const ArrayFormat& format, std::uint8_t* to,
                 ThreadScratch& scratch);

}  // namespace spdl
