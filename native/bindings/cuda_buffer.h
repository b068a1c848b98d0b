#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "bindings/load_report.h"
#include "core/buffer.h"
#include "cuda/device.h"

namespace spdl {

// A C-contiguous array on a GPU, and what keeps its memory alive.
struct CudaBuffer {
    std::shared_ptr<void> owner;
    cuda::DevicePointer data = 0;
    std::vector<std::size_t> shape;
    ElementType type = ElementType::kUint8;
    cuda::Device device = 0;
    std::uintptr_t stream = 0;
    LoadReport report;

    [[nodiscard]] std::size_t bytes() const {
        std::size_t size = element_bytes(type);
        for (const std::size_t side : shape) {
            size *= side;
        }
        return size;
    }
};

inline cuda::Stream stream_of(std::uintptr_t handle) {
    return reinterpret_cast<cuda::Stream>(handle);
}

// Allocates memory by the user's allocator: (size, device, stream) -> address, and address -> None. Needs the GIL.
cuda::DeviceMemory allocate_by(const nanobind::tuple& allocator, cuda::Device device, std::size_t bytes,
                               std::uintptr_t stream);

// Returns what allocates by the user's functions, or from the library's own pool if there are none. It is called
// without the GIL, and keeps no reference.
std::function<cuda::DeviceMemory(std::size_t bytes)> make_allocator(const nanobind::object& allocator,
                                                                    cuda::Device device, std::uintptr_t stream);

}  // namespace spdl
