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
#include "bindings/cuda_buffer.h"
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

// Returns the only array of an array of one, in the same memory.
CudaBuffer first_of(const CudaBuffer& from) {
    if (from.shape.empty() || from.shape.front() != 1) {
        throw nb::value_error("this is no array of one array");
    }
    CudaBuffer result = from;
    result.shape.erase(result.shape.begin());
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
    module.def("first_of", &first_of, nb::arg("buffer"));
    module.def("transfer_to_host", &transfer_to_host, nb::arg("buffer"));
}

}  // namespace spdl
