#include "bindings/python_source.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "bindings/held_bytes.h"

namespace nb = nanobind;

namespace spdl {

PythonSource::PythonSource(nb::object file) : file_(std::move(file)) {
    const bool seekable = nb::hasattr(file_, "seekable") ? nb::cast<bool>(file_.attr("seekable")())
                                                         : nb::hasattr(file_, "seek") && nb::hasattr(file_, "tell");
    if (seekable) {
        begin_ = nb::cast<std::int64_t>(file_.attr("tell")());
        file_.attr("seek")(0, SEEK_END);
        size_ = std::max<std::int64_t>(nb::cast<std::int64_t>(file_.attr("tell")()) - begin_, 0);
        file_.attr("seek")(begin_);
    }
}

PythonSource::~PythonSource() {
    const nb::gil_scoped_acquire held;
    file_.reset();
}

std::size_t PythonSource::read(std::uint8_t* into, std::size_t size) {
    const nb::gil_scoped_acquire held;
    const nb::object piece = file_.attr("read")(size);
    const HeldBytes bytes = hold_bytes(piece);
    if (bytes.size > size) {
        throw nb::value_error("the file's read() returned more bytes than it was asked for");
    }
    std::memcpy(into, bytes.data, bytes.size);
    return bytes.size;
}

void PythonSource::seek(std::int64_t position) {
    const nb::gil_scoped_acquire held;
    file_.attr("seek")(begin_ + position);
}

}  // namespace spdl
