#pragma once

#include <cstddef>
#include <cstdint>

#include "core/geometry.h"
#include "image/load/batch.h"
#include "image/load/one_image.h"
#include "media/options.h"

namespace spdl {

// Returns the thread's memory for the packed pixels of an image whose pixels change.
std::uint8_t* reserve_pixels(Size size, ThreadScratch& scratch);

// Changes these pixels as is said for an image of the batch, and writes them to its place in the array's format.
// Where they are moved, they are blended unless the resize takes the nearest.
void write_varied(std::uint8_t* pixels, Size size, const LoadOptions& options, const CropsAndFlips& changes,
                  std::size_t image, std::uint8_t* to, ThreadScratch& scratch);

}  // namespace spdl
