#include "bindings/format_error.h"

#include <nanobind/nanobind.h>

#include <string_view>

namespace nb = nanobind;

namespace spdl {

void set_format_error(const FormatError& error) {
    const nb::object type = nb::module_::import_("spdl.io._common.errors").attr("FormatError");
    // Names out of archives need not be UTF-8.
    const std::string_view text = error.what();
    const nb::object message = nb::steal(PyUnicode_DecodeUTF8(text.data(), std::ssize(text), "backslashreplace"));
    PyErr_SetObject(type.ptr(), message.ptr());
}

}  // namespace spdl
