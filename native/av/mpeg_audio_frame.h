#pragma once

#include <cstddef>

#include "core/bytes.h"

namespace spdl {

// Returns how many bytes a frame of MPEG audio of layer II (MP2) has by its header; 0 if that is none.
std::size_t layer_two_bytes(Bytes frame);

}  // namespace spdl
