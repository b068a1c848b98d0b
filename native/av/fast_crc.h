#pragma once

#include <cstdint>

#include "core/bytes.h"
#include "ffmpeg/libav.h"

namespace spdl {

// Return what av_crc() does with the table of AV_CRC_16_ANSI or AV_CRC_32_IEEE, in a tenth of the time where the
// processor multiplies polynomials.
std::uint32_t crc_16_ansi(std::uint32_t sum, Bytes bytes);
std::uint32_t crc_32_ieee(std::uint32_t sum, Bytes bytes);

}  // namespace spdl
