#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/buffer.h"
#include "cuda/driver.h"

namespace spdl::cuda {

// Both copy on `stream` and return when the copy has finished. They do not wait for other work on the stream. Memory
// that is not pinned goes through pinned chunks, of which a process keeps a few.

void copy_to_device(const Buffer& from, DevicePointer to, Device device, Stream stream);

// All work that the default stream has been given is done first: the array may be the result of a kernel.
void copy_to_host(DevicePointer from, const Buffer& to, Device device, Stream stream);

}  // namespace spdl::cuda
