#include "bindings/cuda_buffer.h"

#include <string>
#include <utility>

namespace nb = nanobind;

namespace spdl {
namespace {

// Gives memory back to the allocator that it came from. The last owner may be dropped without the GIL.
std::shared_ptr<void> give_back(nb::object free, std::uintptr_t pointer) {
    auto* const held = new nb::object(std::move(free));
    return {nullptr, [held, pointer](void*) {
                const nb::gil_scoped_acquire gil;
                const std::unique_ptr<nb::object> function(held);
                try {
                    (*function)(pointer);
                } catch (nb::python_error& error) {
                    error.discard_as_unraisable(*function);
                }
            }};
}

}  // namespace

cuda::DeviceMemory allocate_by(const nb::tuple& allocator, cuda::Device device, std::size_t bytes,
                               std::uintptr_t stream) {
    const nb::object address = allocator[0](bytes, device, stream);
    std::uintptr_t pointer = 0;
    if (!nb::try_cast(address, pointer) || pointer == 0) {
        throw nb::type_error(("the allocator must return the address of " + std::to_string(bytes) + " bytes on GPU " +
                              std::to_string(device) + " as an int, got " + nb::repr(address).c_str())
                                 .c_str());
    }
    return {give_back(allocator[1], pointer), pointer};
}

std::function<cuda::DeviceMemory(std::size_t bytes)> make_allocator(const nb::object& allocator, cuda::Device device,
                                                                    std::uintptr_t stream) {
    return [&allocator, device, stream](std::size_t bytes) {
        if (allocator.is_none()) {
            return cuda::allocate_device(device, bytes, stream_of(stream));
        }
        const nb::gil_scoped_acquire gil;
        return allocate_by(nb::cast<nb::tuple>(allocator), device, bytes, stream);
    };
}

}  // namespace spdl
