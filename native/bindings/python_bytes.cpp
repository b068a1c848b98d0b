#include "bindings/python_bytes.h"

#include <string>
#include <utility>

namespace nb = nanobind;

namespace spdl {

PythonBytes::PythonBytes(nb::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_ND | PyBUF_FORMAT) != 0) {
        throw nb::python_error();
    }
    const bool bytes = view_.itemsize == 1 && view_.ndim == 1;
    if (!bytes) {
        const std::string message = "the bytes of a file must be a one-dimensional array of single bytes, got " +
                                    std::to_string(view_.ndim) + " dimensions of " + std::to_string(view_.itemsize) +
                                    "-byte elements";
        PyBuffer_Release(&view_);
        throw nb::type_error(message.c_str());
    }
}

PythonBytes::PythonBytes(PythonBytes&& other) noexcept : view_(std::exchange(other.view_, Py_buffer{})) {}

PythonBytes::~PythonBytes() {
    PyBuffer_Release(&view_);
}

PythonPath::PythonPath(nb::str path) {
    Py_ssize_t size = 0;
    if (const char* const text = PyUnicode_AsUTF8AndSize(path.ptr(), &size)) {
        if (size == PyUnicode_GetLength(path.ptr())) {
            text_ = {text, static_cast<std::size_t>(size)};
            encoded_ = std::move(path);
            return;
        }
    } else {
        PyErr_Clear();  // It has surrogate escapes, which only the file system's encoding takes.
    }
    encoded_ = nb::steal(PyUnicode_EncodeFSDefault(path.ptr()));
    if (!encoded_.is_valid()) {
        throw nb::python_error();
    }
    char* text = nullptr;
    if (PyBytes_AsStringAndSize(encoded_.ptr(), &text, &size) != 0) {
        throw nb::python_error();
    }
    text_ = {text, static_cast<std::size_t>(size)};
}

}  // namespace spdl
