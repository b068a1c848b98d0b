#include "bindings/held_bytes.h"

#include <utility>

namespace nb = nanobind;

namespace spdl {

HeldBytes hold_bytes(nb::handle object) {
    if (PyBytes_CheckExact(object.ptr())) {
        return {nb::borrow(object), reinterpret_cast<std::uint8_t*>(PyBytes_AsString(object.ptr())),
                static_cast<std::size_t>(PyBytes_Size(object.ptr())), false};
    }
    // As long as this object lives, a bytearray cannot be resized, nor a file unmapped.
    nb::object view = nb::steal(PyMemoryView_FromObject(object.ptr()));
    if (!view.is_valid()) {
        throw nb::python_error();
    }
    Py_buffer buffer;
    if (PyObject_GetBuffer(view.ptr(), &buffer, PyBUF_C_CONTIGUOUS) != 0) {
        throw nb::python_error();
    }
    HeldBytes held{std::move(view), static_cast<std::uint8_t*>(buffer.buf), static_cast<std::size_t>(buffer.len),
                   buffer.readonly == 0};
    PyBuffer_Release(&buffer);
    return held;
}

}  // namespace spdl
