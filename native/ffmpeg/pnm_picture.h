#pragma once

#include <cstdint>
#include <vector>

#include "core/bytes.h"

namespace spdl {

// Returns the picture of a PBM, PGM or PPM as FFmpeg decodes it to Pillow's pixels: in binary, with levels up to 255 or
// 65535, to which FFmpeg would scale others wrongly. Throws MediaError if the header is damaged or if samples are
// missing or too large.
std::vector<std::uint8_t> plain_pnm(Bytes pnm);

}  // namespace spdl
