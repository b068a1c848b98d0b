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
        const std::string message = "encoded images must be one-dimensional arrays of single bytes, got " +
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
    if (PyUnicode_IS_COMPACT_ASCII(path.ptr())) {
        Py_ssize_t size = 0;
        const char* const text = PyUnicode_AsUTF8AndSize(path.ptr(), &size);
        text_ = {text, static_cast<std::size_t>(size)};
        encoded_ = std::move(path);
        return;
    }
    encoded_ = nb::steal(PyUnicode_EncodeFSDefault(path.ptr()));
    if (!encoded_.is_valid()) {
        throw nb::python_error();
    }
    text_ = {PyBytes_AS_STRING(encoded_.ptr()), static_cast<std::size_t>(PyBytes_GET_SIZE(encoded_.ptr()))};
}

}  // namespace spdl
