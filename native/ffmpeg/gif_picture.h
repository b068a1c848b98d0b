#pragma once

#include <cstdint>
#include <vector>

#include "core/bytes.h"

namespace spdl {

// Returns a GIF of the first picture alone, which FFmpeg decodes to Pillow's pixels: the screen is as large as the
// picture needs, what lies beside it has the first colour, and every index has one. Throws MediaError if there is no
// picture, or if its codes are damaged or end early: FFmpeg would fill up what is missing.
std::vector<std::uint8_t> first_gif_picture(Bytes gif);

}  // namespace spdl
