#pragma once

#include <libdeflate.h>

namespace spdl {

// That of the calling thread, which keeps it: making one costs more than inflating a small member. Throws
// std::bad_alloc.
libdeflate_decompressor* decompressor();

}  // namespace spdl
