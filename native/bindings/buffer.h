#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/buffer.h"
#include "core/non_copyable.h"
#include "cuda/device.h"
#include "media/decoder.h"

namespace spdl {

// Return the name of an element type in NumPy, and in DLPack.
const char* dtype_name(ElementType type);
nanobind::dlpack::dtype dlpack_type(ElementType type);

nanobind::tuple shape_tuple(const std::vector<std::size_t>& shape);

// Returns an array interface, version 3, of NumPy's or CUDA's.
nanobind::dict array_interface(std::uintptr_t data, const std::vector<std::size_t>& shape, ElementType type);

// The report of loading the images of an array. It goes along when the array is copied to a device and back.
struct LoadReport {
    nanobind::object failures = nanobind::tuple();
    std::vector<const Backend*> backends;  // What decoded each image; empty if that is not known.
};

// A failure names its input, a user's object that may lead back to the array, so Python's garbage collector has to see
// it. T has a member `report`.
template <typename T>
int traverse_report(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (nanobind::inst_ready(self)) {
        Py_VISIT(nanobind::inst_ptr<T>(self)->report.failures.ptr());
    }
    return 0;
}

template <typename T>
int clear_report(PyObject* self) {
    nanobind::inst_ptr<T>(self)->report.failures = nanobind::tuple();
    return 0;
}

template <typename T>
PyType_Slot* report_slots() {
    static PyType_Slot slots[] = {
        {Py_tp_traverse, reinterpret_cast<void*>(traverse_report<T>)},
        {Py_tp_clear, reinterpret_cast<void*>(clear_report<T>)},
        {0, nullptr},
    };
    return slots;
}

// The Python object over an array, with the failures of loading it.
class CpuBuffer {
  public:
    explicit CpuBuffer(Buffer array) : buffer(std::move(array)) {}
    CpuBuffer(CpuBuffer&&) = default;
    CpuBuffer(const CpuBuffer&) = delete;
    CpuBuffer& operator=(const CpuBuffer&) = delete;
    CpuBuffer& operator=(CpuBuffer&&) = delete;
    ~CpuBuffer();

    Buffer buffer;
    LoadReport report;
};

// The Python object over a storage.
class CpuStorage : NonCopyable {
  public:
    explicit CpuStorage(std::unique_ptr<Storage> memory) : storage(std::move(memory)) {}
    ~CpuStorage();

    std::unique_ptr<Storage> storage;
};

// Returns a block of a CPUStorage that nothing else uses, or the writable buffer of any other object; nothing for None.
std::optional<Memory> take_memory(const nanobind::object& storage);

void bind_buffer(nanobind::module_& module);

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

// Returns what allocates by the user's functions, or from the library's own pool if none exist. It is called without
// the GIL, and keeps no reference.
std::function<cuda::DeviceMemory(std::size_t bytes)> make_allocator(const nanobind::object& allocator,
                                                                    cuda::Device device, std::uintptr_t stream);

inline const std::vector<std::size_t>& shape_of(const CpuBuffer& array) {
    return array.buffer.shape;
}
inline const std::vector<std::size_t>& shape_of(const CudaBuffer& array) {
    return array.shape;
}
inline ElementType type_of(const CpuBuffer& array) {
    return array.buffer.type;
}
inline ElementType type_of(const CudaBuffer& array) {
    return array.type;
}

// Binds what arrays on any device tell about themselves, and the report of loading them.
template <typename T>
void bind_array(nanobind::class_<T>& bound, const char* name) {
    bound.def_prop_ro(
             "shape", [](const T& self) { return shape_tuple(shape_of(self)); }, "The sides, outermost first.")
        .def_prop_ro(
            "dtype", [](const T& self) { return dtype_name(type_of(self)); },
            "The element type by NumPy's name, such as \"uint8\" or \"float32\".")
        .def_prop_ro(
            "ndim", [](const T& self) { return shape_of(self).size(); }, "The number of sides.")
        .def("__len__",
             [name](const T& self) {
                 if (shape_of(self).empty()) {
                     throw nanobind::type_error(("a " + std::string(name) + " without sides has no length").c_str());
                 }
                 return shape_of(self).front();
             })
        .def(
            "_set_failures", [](T& self, nanobind::tuple failures) { self.report.failures = std::move(failures); },
            nanobind::arg("failures"))
        .def_prop_ro(
            "failures", [](const T& self) { return self.report.failures; },
            "The images that load_image_batch could not load, or only in part, as a tuple of LoadFailure.")
        .def_prop_ro(
            "backends",
            [](const T& self) {
                nanobind::list names;
                for (const Backend* const backend : self.report.backends) {
                    names.append(backend_name(backend));
                }
                return nanobind::tuple(names);
            },
            "The backend of each image, \"libjpeg-turbo\" or \"ffmpeg\"; \"\" for an image that failed and was kept.\n"
            "Empty for a buffer that was pickled.");
}

}  // namespace spdl
