#pragma once

#include <cstddef>

#include "core/storage.h"

namespace spdl::cuda {

// Main memory whose pages stay where they are, so that GPUs can read and write them by themselves; for a Storage.
// Throws CudaUnavailable where there is no GPU.
Memory allocate_pinned(std::size_t size);

}  // namespace spdl::cuda
