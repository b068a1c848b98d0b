#pragma once

#include <cstddef>

#include "core/storage.h"

namespace spdl::cuda {

// Allocates main memory for a Storage. Its pages stay where they are, so GPUs can read and write them by themselves.
// Throws CudaUnavailable if there is no GPU.
Memory allocate_pinned(std::size_t size);

}  // namespace spdl::cuda
