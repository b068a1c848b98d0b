#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/device.h"

namespace spdl {

// The device memory of work on a stream. It is given back when the work is done, also if an exception ends it. The
// device's context must be current.
class Workspace {
  public:
    Workspace(cuda::Device device, cuda::Stream stream) : device_(device), stream_(stream) {}
    Workspace(const Workspace&) = delete;
    Workspace& operator=(const Workspace&) = delete;
    ~Workspace();

    // Says that work is submitted that does not use this memory.
    void begin() { finished_ = false; }

    cuda::DevicePointer allocate(std::size_t bytes);

    // Copies bytes to memory that they fit into, and returns when they are there.
    void upload(std::vector<std::uint8_t>& bytes, cuda::DevicePointer to, std::size_t room);

    // Does so to new memory, and returns its place.
    cuda::DevicePointer upload(std::vector<std::uint8_t>& bytes);

    // Waits until all work on the stream is done.
    void finish();

  private:
    cuda::Device device_;
    cuda::Stream stream_;
    bool finished_ = true;
    std::vector<cuda::DeviceMemory> memory_;
};

}  // namespace spdl
