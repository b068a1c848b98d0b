#include "bindings/python_sink.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "bindings/held_bytes.h"

namespace nb = nanobind;

namespace spdl {

PythonSink::PythonSink(nb::object file) : file_(std::move(file)) {
    can_seek_ = nb::hasattr(file_, "seekable") ? nb::cast<bool>(file_.attr("seekable")())
                                               : nb::hasattr(file_, "seek") && nb::hasattr(file_, "tell");
    if (can_seek_) {
        begin_ = nb::cast<std::int64_t>(file_.attr("tell")());
    }
}

PythonSink::~PythonSink() {
    const nb::gil_scoped_acquire held;
    file_.reset();
}

void PythonSink::write(Bytes bytes) {
    const nb::gil_scoped_acquire held;
    while (!bytes.empty()) {
        // A copy: the file may keep what it is given.
        const nb::object put = file_.attr("write")(nb::bytes(bytes.data(), bytes.size()));
        // Only files without a buffer write less than they are given, and say so.
        const std::size_t count = put.is_none() ? bytes.size() : nb::cast<std::size_t>(put);
        if (count == 0 || count > bytes.size()) {
            throw nb::value_error("the file's write() did not return how many bytes it wrote");
        }
        bytes = bytes.subspan(count);
    }
}

void PythonSink::seek(std::int64_t position) {
    const nb::gil_scoped_acquire held;
    file_.attr("seek")(begin_ + position);
}

std::size_t PythonSink::read_back(std::int64_t position, std::uint8_t* into, std::size_t size) {
    const nb::gil_scoped_acquire held;
    const nb::object before = file_.attr("tell")();
    file_.attr("seek")(begin_ + position);
    const nb::object piece = file_.attr("read")(size);
    file_.attr("seek")(before);
    const HeldBytes bytes = hold_bytes(piece);
    if (bytes.size > size) {
        throw nb::value_error("the file's read() returned more bytes than it was asked for");
    }
    std::memcpy(into, bytes.data, bytes.size);
    return bytes.size;
}

}  // namespace spdl
