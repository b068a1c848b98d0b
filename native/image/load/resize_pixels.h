#pragma once

#include <cstdint>

#include "core/bytes.h"
#include "media/load_options.h"

namespace spdl {

// Resizes packed pixels in memory, without a decoder. Benchmarks compare it with the resize of other libraries.
void resize_pixels(Bytes pixels, Size size, const LoadOptions& options, std::uint8_t* to);

}  // namespace spdl
