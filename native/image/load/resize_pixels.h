#pragma once

#include <cstdint>

#include "core/bytes.h"
#include "media/load_options.h"

namespace spdl {

// Resizes packed pixels that are in memory, without a decoder: what benchmarks compare with other libraries' resize.
void resize_pixels(Bytes pixels, Size size, const LoadOptions& options, std::uint8_t* to);

}  // namespace spdl
