#pragma once

#include <cstddef>

#include "core/bytes.h"

namespace spdl {

// Returns how many bytes a frame of MPEG audio has by its header; 0 if that is none, or leaves the bit rate open.
std::size_t mpeg_audio_bytes(Bytes frame);

// Does the same for layer II (MP2) only.
std::size_t layer_two_bytes(Bytes frame);

}  // namespace spdl
