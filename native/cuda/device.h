#pragma once

#include <cstddef>
#include <memory>

#include "cuda/driver.h"

namespace spdl::cuda {

// How many GPUs this process sees. Throws CudaUnavailable where there is none.
int device_count();

// Makes a context the calling thread's own for its lifetime, whatever the thread had before.
class ContextScope {
  public:
    // The device's primary context, which PyTorch and all that builds on CUDA's runtime use, too.
    explicit ContextScope(Device device);
    explicit ContextScope(Context context);
    ContextScope(const ContextScope&) = delete;
    ContextScope& operator=(const ContextScope&) = delete;
    ~ContextScope();
};

// A primary context, for what belongs to no device. It prefers that of a device in use: a context takes hundreds of
// megabytes on its device, and in a process of a job on several GPUs the first GPU is another's.
Context any_context();

struct DeviceMemory {
    std::shared_ptr<void> owner;
    DevicePointer pointer = 0;
};

// Memory on the device that work on `stream` may use at once. When the owner goes it is used again, but not before all
// is done that the device's default stream had been given until then.
DeviceMemory allocate_device(Device device, std::size_t bytes, Stream stream);

}  // namespace spdl::cuda
