#include "bindings/python_source.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace nb = nanobind;

namespace spdl {

PythonSource::PythonSource(nb::object file) : file_(std::move(file)) {
    if (file_.can_seek()) {
        begin_ = file_.tell();
        file_.seek(0, SEEK_END);
        size_ = std::max<std::int64_t>(file_.tell() - begin_, 0);
        file_.seek(begin_);
    }
}

PythonSource::~PythonSource() {
    const nb::gil_scoped_acquire held;
    file_.reset();
}

std::size_t PythonSource::read(std::uint8_t* into, std::size_t size) {
    const nb::gil_scoped_acquire held;
    return file_.read(into, size);
}

void PythonSource::seek(std::int64_t position) {
    const nb::gil_scoped_acquire held;
    file_.seek(begin_ + position);
}

}  // namespace spdl
