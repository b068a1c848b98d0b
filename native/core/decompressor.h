#pragma once

#include <libdeflate.h>

namespace spdl {

// Returns the calling thread's own decompressor, which the thread keeps: making one costs more than inflating a small
// member. Throws std::bad_alloc.
libdeflate_decompressor* decompressor();

}  // namespace spdl
