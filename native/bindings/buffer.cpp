#include "bindings/buffer.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <bit>
#include <cstring>
#include <string_view>

#include "bindings/native_call.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace spdl {

const char* dtype_name(ElementType type) {
    return element_kind(type).name.data();
}

nb::dlpack::dtype dlpack_type(ElementType type) {
    using Code = nb::dlpack::dtype_code;
    const ElementKind& kind = element_kind(type);
    const Code code = kind.letter == 'u' ? Code::UInt : kind.letter == 'i' ? Code::Int : Code::Float;
    return {static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(8 * kind.bytes), 1};
}

nb::tuple shape_tuple(const std::vector<std::size_t>& shape) {
    nb::list sides;
    for (const std::size_t side : shape) {
        sides.append(side);
    }
    return nb::tuple(sides);
}

nb::dict array_interface(std::uintptr_t data, const std::vector<std::size_t>& shape, ElementType type) {
    const ElementKind& kind = element_kind(type);
    const char order = kind.bytes == 1 ? '|' : std::endian::native == std::endian::big ? '>' : '<';
    nb::dict interface;
    interface["version"] = 3;
    interface["shape"] = shape_tuple(shape);
    interface["typestr"] = std::string{order, kind.letter} + std::to_string(kind.bytes);
    interface["data"] = nb::make_tuple(data, false);
    interface["strides"] = nb::none();
    return interface;
}

namespace {

// nanobind's own array type speaks every version of DLPack; it keeps `self` alive.
nb::object as_ndarray(nb::handle_t<CpuBuffer> self) {
    const auto& held = nb::cast<const CpuBuffer&>(self);
    const Buffer& buffer = held.buffer;
    return nb::cast(nb::ndarray<nb::array_api>(buffer.data, buffer.shape.size(), buffer.shape.data(), self, nullptr,
                                               dlpack_type(buffer.type), nb::device::cpu::value));
}

nb::object dlpack(nb::handle_t<CpuBuffer> self, const nb::kwargs& options) {
    return as_ndarray(self).attr("__dlpack__")(**options);
}

// Releases the memory of another Python object. The last owner may drop it without the GIL.
struct ReleaseView {
    void operator()(Py_buffer* view) const {
        const nb::gil_scoped_acquire held;
        PyBuffer_Release(view);
        delete view;
    }
};

ElementType element_type(std::string_view name) {
    if (const std::optional<ElementType> type = parse_element(name)) {
        return *type;
    }
    throw nb::value_error(
        ("there is no CPUBuffer of dtype \"" + std::string(name) +
         "\"; there are those of \"uint8\", \"uint16\", \"int16\", \"int32\", \"int64\", \"float16\", "
         "\"float32\" and \"float64\"")
            .c_str());
}

// Returns an array over the memory of `content` if that is writable, else over a copy of it.
CpuBuffer adopt(nb::handle content, std::vector<std::size_t> shape, std::string_view dtype) {
    const ElementType type = element_type(dtype);
    std::size_t bytes = element_bytes(type);
    bool fits = true;
    for (const std::size_t side : shape) {
        fits = fits && !__builtin_mul_overflow(bytes, side, &bytes);
    }
    auto view = std::make_unique<Py_buffer>();
    bool writable = PyObject_GetBuffer(content.ptr(), view.get(), PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) == 0;
    if (!writable) {
        PyErr_Clear();
        if (PyObject_GetBuffer(content.ptr(), view.get(), PyBUF_C_CONTIGUOUS) != 0) {
            throw nb::python_error();
        }
    }
    const std::shared_ptr<Py_buffer> owner(view.release(), ReleaseView());
    if (!fits || static_cast<std::size_t>(owner->len) != bytes) {
        throw nb::value_error(("the content of a CPUBuffer of this shape and dtype \"" + std::string(dtype) +
                               "\" has " + (fits ? std::to_string(bytes) : "too many") + " bytes, got " +
                               std::to_string(owner->len) + ": it was damaged on its way")
                                  .c_str());
    }
    auto* const data = static_cast<std::uint8_t*>(owner->buf);
    if (writable && reinterpret_cast<std::uintptr_t>(data) % element_bytes(type) == 0) {
        return CpuBuffer(Buffer{owner, data, std::move(shape), type});
    }
    Buffer copy = allocate(std::move(shape), type);
    if (bytes > 0) {
        std::memcpy(copy.data, data, bytes);
    }
    return CpuBuffer(std::move(copy));
}

nb::object reduce_ex(nb::handle_t<CpuBuffer> self, int protocol) {
    return nb::module_::import_("spdl.io._array.arrays").attr("reduce_buffer")(self, protocol);
}

std::string represent(const CpuBuffer& self) {
    std::string text = "CPUBuffer(shape=" + std::string(nb::repr(shape_tuple(shape_of(self))).c_str()) +
                       ", dtype=" + dtype_name(type_of(self));
    if (const std::size_t failed = nb::len(self.report.failures); failed != 0) {
        text += ", failures=" + std::to_string(failed);
    }
    return text + ")";
}

}  // namespace

CpuBuffer::~CpuBuffer() {
    if (buffer.owner && buffer.bytes() >= kLargeBytes) {
        const ReleasedGil released;
        buffer.owner.reset();
    }
}

CpuStorage::~CpuStorage() {
    const ReleasedGil released;
    storage.reset();
}

std::optional<Memory> take_memory(const nb::object& storage) {
    if (storage.is_none()) {
        return std::nullopt;
    }
    if (nb::isinstance<CpuStorage>(storage)) {
        Storage& held = *nb::cast<CpuStorage&>(storage).storage;
        const ReleasedGil released;
        return held.take();
    }
    auto view = std::make_unique<Py_buffer>();
    if (PyObject_GetBuffer(storage.ptr(), view.get(), PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) != 0) {
        throw nb::python_error();
    }
    const std::shared_ptr<Py_buffer> owner(view.release(), ReleaseView());
    return Memory{owner, static_cast<std::uint8_t*>(owner->buf), static_cast<std::size_t>(owner->len)};
}

void make_storage(CpuStorage* self, std::size_t size, bool pinned) {
    std::unique_ptr<Storage> storage;
    {
        const ReleasedGil released;
        storage = std::make_unique<Storage>(size, pinned ? cuda::allocate_pinned : allocate_pageable);
    }
    new (self) CpuStorage(std::move(storage));
}

std::string represent_storage(const CpuStorage& self) {
    return "CPUStorage(" + std::to_string(self.storage->size()) + " bytes" +
           (self.storage->pinned() ? ", pinned" : "") + ")";
}

void bind_buffer(nb::module_& module) {
    nb::class_<CpuStorage>(
        module, "CPUStorage",
        "Reusable memory in which convert_frames and load_image_batch make arrays.\n"
        "\n"
        "An array keeps its part of the storage as long as the array, or a view of it, lives. An array\n"
        "that is made meanwhile gets memory of its own, of the same size and kind, which is kept for\n"
        "later. So any number of threads can share one storage, and nobody waits.\n"
        "\n"
        "Example:\n"
        "    >>> cpu_storage(1000, pin_memory=False)\n"
        "    CPUStorage(1000 bytes)")
        .def("__init__", &make_storage, "size"_a, "pin_memory"_a)
        .def_prop_ro(
            "nbytes", [](const CpuStorage& self) { return self.storage->size(); },
            "The size in bytes of the largest array that fits.")
        .def("__repr__", &represent_storage);
    nb::class_<CpuBuffer> buffer(
        module, "CPUBuffer", nb::type_slots(report_slots<CpuBuffer>()),
        "A C-contiguous array in main memory, made by convert_frames, load_image or load_image_batch.\n"
        "\n"
        "``to_numpy`` and ``to_torch`` (or anything that reads ``__array_interface__`` or DLPack) view\n"
        "it without a copy; the views are writable and keep the memory alive. It can be pickled; with\n"
        "protocol 5 its content may travel out of band, without a copy.\n"
        "\n"
        "Example:\n"
        "    >>> buffer = load_image(photo)\n"
        "    >>> buffer\n"
        "    CPUBuffer(shape=(375, 500, 3), dtype=uint8)\n"
        "    >>> to_numpy(buffer)[0, 0, 0] == np.asarray(buffer)[0, 0, 0]\n"
        "    np.True_");
    buffer
        .def_prop_ro(
            "__array_interface__",
            [](const CpuBuffer& self) {
                const auto data = reinterpret_cast<std::uintptr_t>(self.buffer.data);
                return array_interface(data, shape_of(self), type_of(self));
            },
            "NumPy's array interface, version 3.")
        .def_prop_ro(
            "nbytes", [](const CpuBuffer& self) { return self.buffer.bytes(); }, "The size in bytes.")
        .def("__dlpack__", &dlpack, "options"_a, "The array as a DLPack capsule.")
        .def(
            "__dlpack_device__",
            [](nb::handle_t<CpuBuffer> self) { return as_ndarray(self).attr("__dlpack_device__")(); },
            "The device, as DLPack numbers it: the CPU.")
        .def("__reduce_ex__", &reduce_ex, "protocol"_a, "For pickle. With protocol 5 it need not be copied.")
        .def("__repr__", &represent);
    bind_array(buffer, "CPUBuffer");
    module.def("adopt", &adopt, "content"_a, "shape"_a, "dtype"_a);
}

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
