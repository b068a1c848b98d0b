#include "bindings/python_bytes.h"

#include <cstring>
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
        text_ = PyUnicode_AsUTF8AndSize(path.ptr(), &size);
        if (std::strlen(text_) != static_cast<std::size_t>(size)) {
            throw nb::value_error("a path holds a null character");
        }
        encoded_ = std::move(path);
        return;
    }
    PyObject* encoded = nullptr;
    if (PyUnicode_FSConverter(path.ptr(), &encoded) == 0) {
        throw nb::python_error();
    }
    encoded_ = nb::steal(encoded);
    text_ = PyBytes_AS_STRING(encoded);
}

}  // namespace spdl
