#include "bindings/python_sink.h"

#include <string_view>
#include <utility>

namespace nb = nanobind;

namespace spdl {
namespace {

// Returns whether the system puts all that is written at the end of the file, wherever its position is.
bool appends(nb::handle file) {
    const nb::object mode = nb::getattr(file, "mode", nb::none());
    return nb::isinstance<nb::str>(mode) &&
           std::string_view(nb::cast<nb::str>(mode).c_str()).find('a') != std::string_view::npos;
}

}  // namespace

PythonSink::PythonSink(nb::object file) : file_(file), can_seek_(file_.can_seek() && !appends(file)) {
    if (can_seek_) {
        begin_ = file_.tell();
    }
}

PythonSink::~PythonSink() {
    const nb::gil_scoped_acquire held;
    file_.reset();
}

void PythonSink::write(Bytes bytes) {
    const nb::gil_scoped_acquire held;
    if (can_seek() && file_.tell() != begin_ + position_) {
        file_.seek(begin_ + position_);
    }
    file_.write(bytes);
    position_ += static_cast<std::int64_t>(bytes.size());
    if (can_seek() && file_.tell() != begin_ + position_) {
        throw nb::value_error(
            "the file did not write where its position was: was it opened to append? Open it with \"wb\" or \"r+b\"");
    }
}

void PythonSink::seek(std::int64_t position) {
    const nb::gil_scoped_acquire held;
    file_.seek(begin_ + position);
    position_ = position;
}

std::size_t PythonSink::read_back(std::int64_t position, std::uint8_t* into, std::size_t size) {
    const nb::gil_scoped_acquire held;
    file_.seek(begin_ + position);
    const std::size_t count = file_.read(into, size);
    file_.seek(begin_ + position_);
    return count;
}

}  // namespace spdl
