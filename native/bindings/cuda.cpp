#include "bindings/cuda.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/array_info.h"
#include "bindings/buffer.h"
#include "bindings/gil.h"
#include "bindings/load_report.h"
#include "bindings/native_call.h"
#include "cuda/device.h"
#include "cuda/library.h"
#include "cuda/nvcuvid.h"
#include "cuda/nvjpeg.h"
#include "cuda/nvrtc.h"
#include "cuda/transfer.h"

namespace nb = nanobind;

namespace spdl {
namespace {

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

cuda::Stream stream_of(std::uintptr_t handle) {
    return reinterpret_cast<cuda::Stream>(handle);
}

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

// The user's allocator: (size, device, stream) -> address, and address -> None.
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

CudaBuffer transfer_to_device(const CpuBuffer& from, cuda::Device device, std::uintptr_t stream,
                              const nb::object& allocator) {
    const Buffer& source = from.buffer;
    CudaBuffer result{nullptr, 0, source.shape, source.type, device, stream, from.report};
    cuda::DeviceMemory memory;
    if (!allocator.is_none()) {
        memory = allocate_by(nb::cast<nb::tuple>(allocator), device, source.bytes(), stream);
    }
    const NativeCall native("transfer_buffer");
    if (allocator.is_none()) {
        memory = cuda::allocate_device(device, source.bytes(), stream_of(stream));
    }
    cuda::copy_to_device(source, memory.pointer, device, stream_of(stream));
    result.owner = std::move(memory.owner);
    result.data = memory.pointer;
    return result;
}

Buffer copy_to_host(const CudaBuffer& from) {
    const NativeCall native("transfer_buffer_cpu");
    Buffer buffer = allocate(from.shape, from.type);
    cuda::copy_to_host(from.data, buffer, from.device, stream_of(from.stream));
    return buffer;
}

CpuBuffer transfer_to_host(const CudaBuffer& from) {
    CpuBuffer result(copy_to_host(from));
    result.report = from.report;
    return result;
}

int device_count() {
    const ReleasedGil released;
    return cuda::device_count();
}

// Returns the file and the version of one of NVIDIA's libraries.
std::pair<std::string, std::string> library(const std::string& name) {
    const ReleasedGil released;
    if (name == "nvjpeg") {
        return {cuda::nvjpeg().path, cuda::nvjpeg_version()};
    }
    if (name == "nvrtc") {
        return {cuda::nvrtc().path, cuda::nvrtc_version()};
    }
    if (name == "nvcuvid") {
        return {cuda::nvcuvid().path, {}};
    }
    const int version = cuda::driver_version();
    return {cuda::driver().path, std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10)};
}

nb::dict array_interface(const CudaBuffer& self) {
    nb::dict interface;
    interface["version"] = 3;
    interface["shape"] = shape_tuple(self.shape);
    interface["typestr"] = type_string(self.type);
    interface["data"] = nb::make_tuple(self.data, false);
    interface["strides"] = nb::none();
    // No stream has any work left on it.
    interface["stream"] = nb::none();
    return interface;
}

nb::object as_ndarray(nb::handle_t<CudaBuffer> self) {
    const auto& buffer = nb::cast<const CudaBuffer&>(self);
    return nb::cast(nb::ndarray<nb::array_api>(reinterpret_cast<void*>(buffer.data), buffer.shape.size(),
                                               buffer.shape.data(), self, nullptr, dlpack_type(buffer.type),
                                               nb::device::cuda::value, buffer.device));
}

nb::object dlpack(nb::handle_t<CudaBuffer> self, nb::kwargs options) {
    // The consumer's stream need not wait for anything: the transfer has finished.
    if (options.contains("stream")) {
        nb::del(options["stream"]);
    }
    return as_ndarray(self).attr("__dlpack__")(**options);
}

std::string represent(const CudaBuffer& self) {
    return "CUDABuffer(shape=" + std::string(nb::repr(shape_tuple(self.shape)).c_str()) +
           ", dtype=" + dtype_name(self.type) + ", device_index=" + std::to_string(self.device) + ")";
}

}  // namespace

void bind_cuda(nb::module_& module) {
    nb::class_<CudaBuffer> buffer(
        module, "CUDABuffer", nb::type_slots(report_slots<CudaBuffer>()),
        "A C-contiguous array on a GPU, made by transfer_buffer.\n"
        "\n"
        "``to_torch``, ``to_numba`` and ``to_jax`` (or anything that reads ``__cuda_array_interface__``\n"
        "or DLPack) view it without a copy; the views keep its memory alive. When the last one goes,\n"
        "the memory is used again after all work that the default stream has been given until then.\n"
        "If other streams use it, keep it until they are done.\n"
        "\n"
        "Example:\n"
        "    >>> config = cuda_config(device_index=0)  # doctest: +SKIP\n"
        "    >>> transfer_buffer(load_image(photo), device_config=config).device_index  # doctest: +SKIP\n"
        "    0");
    buffer.def_prop_ro("__cuda_array_interface__", &array_interface, "CUDA's array interface, version 3.")
        .def_prop_ro(
            "shape", [](const CudaBuffer& self) { return shape_tuple(self.shape); }, "The sides, outermost first.")
        .def_prop_ro(
            "dtype", [](const CudaBuffer& self) { return dtype_name(self.type); }, "The element type by NumPy's name.")
        .def_prop_ro(
            "ndim", [](const CudaBuffer& self) { return self.shape.size(); }, "The number of sides.")
        .def_prop_ro("nbytes", &CudaBuffer::bytes, "The size in bytes.")
        .def_prop_ro(
            "device_index", [](const CudaBuffer& self) { return self.device; },
            "The GPU's number among those that this process sees, from 0.")
        .def("__dlpack__", &dlpack, nb::arg("options"), "The array as a DLPack capsule.")
        .def(
            "__dlpack_device__",
            [](nb::handle_t<CudaBuffer> self) { return as_ndarray(self).attr("__dlpack_device__")(); },
            "The device, as DLPack numbers it: CUDA and its index.")
        .def("__len__",
             [](const CudaBuffer& self) {
                 if (self.shape.empty()) {
                     throw nb::type_error("a CUDABuffer without sides has no length");
                 }
                 return self.shape.front();
             })
        .def("__repr__", &represent);
    bind_report(buffer);
    module.def("cuda_device_count", &device_count);
    module.def("cuda_device_names", &cuda::device_names);
    module.def("cuda_library", &library, nb::arg("name"));
    module.def("cuda_search", &cuda::set_search_folders, nb::arg("folders"));
    module.def("transfer_to_device", &transfer_to_device, nb::arg("buffer"), nb::arg("device"), nb::arg("stream"),
               nb::arg("allocator").none());
    module.def("transfer_to_host", &transfer_to_host, nb::arg("buffer"));
}

}  // namespace spdl
