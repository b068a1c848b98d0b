#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/buffer.h"
#include "core/non_copyable.h"
#include "cuda/driver.h"

namespace spdl::cuda {

// Returns how many GPUs this process sees. Throws CudaUnavailable if none exists.
int device_count();

// Returns the names of these GPUs by their numbers. Needs no context.
std::vector<std::string> device_names();

// Makes a context current on the calling thread for its lifetime, whatever was current before.
class ContextScope : NonCopyable {
  public:
    // Takes the device's primary context, which PyTorch and everything else on CUDA's runtime use, too.
    explicit ContextScope(Device device);
    explicit ContextScope(Context context);
    ~ContextScope();
};

// Returns a primary context for memory that belongs to no device. It prefers the context of a device in use: a context
// takes hundreds of megabytes on its device, and the first GPU may belong to another process of a job on several GPUs.
Context any_context();

struct DeviceMemory {
    std::shared_ptr<void> owner;
    DevicePointer pointer = 0;
};

// Allocates memory on the device that work on `stream` may use at once. When the owner goes, the memory is used again,
// but not before all work is done that the device's default stream had been given until then.
DeviceMemory allocate_device(Device device, std::size_t bytes, Stream stream);

// Allocates main memory for a Storage. Its pages do not move, so GPUs can read and write them directly. Throws
// CudaUnavailable if there is no GPU.
Memory allocate_pinned(std::size_t size);

// Both copy on `stream` and return when the copy has finished. They do not wait for other work on the stream. Memory
// that is not pinned goes through pinned chunks; a process keeps a few.

void copy_to_device(const Buffer& from, DevicePointer to, Device device, Stream stream);

// All work that the default stream has been given is done first: the array may be the result of a kernel.
void copy_to_host(DevicePointer from, const Buffer& to, Device device, Stream stream);

}  // namespace spdl::cuda
