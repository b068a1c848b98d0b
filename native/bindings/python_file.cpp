#include <algorithm>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "bindings/python_bytes.h"

namespace nb = nanobind;

namespace spdl {
namespace {

// Returns an object as users write it, shortened.
std::string shown(nb::handle object) {
    constexpr std::size_t kMost = 80;
    std::string text = nb::repr(object).c_str();
    return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

// Returns the value of an int; nothing if it is not an int, or too large for a file.
std::optional<std::int64_t> integer(nb::handle object) {
    if (!PyLong_Check(object.ptr())) {
        return std::nullopt;
    }
    const long long value = PyLong_AsLongLong(object.ptr());
    if (value == -1 && PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        return std::nullopt;
    }
    return value;
}

[[noreturn]] void refuse_count(nb::handle returned, std::size_t size) {
    throw nb::value_error(("the file's write() must return how many of the " + std::to_string(size) +
                           " bytes it wrote, an int of at least 1, or None for all of them, got " + shown(returned))
                              .c_str());
}

}  // namespace

PythonFile::PythonFile(nb::object file) : file_(std::move(file)) {
    if (!nb::hasattr(file_, "seekable")) {
        can_seek_ = nb::hasattr(file_, "seek") && nb::hasattr(file_, "tell");
        return;
    }
    const int answer = PyObject_IsTrue(nb::object(file_.attr("seekable")()).ptr());
    if (answer < 0) {
        throw nb::python_error();
    }
    can_seek_ = answer != 0;
}

std::int64_t PythonFile::tell() const {
    const nb::object returned = file_.attr("tell")();
    const std::optional<std::int64_t> position = integer(returned);
    if (!position || *position < 0) {
        throw nb::value_error(
            ("the file's tell() must return its position, an int of at least 0 and less than 2**63, got " +
             shown(returned))
                .c_str());
    }
    return *position;
}

void PythonFile::seek(std::int64_t position, int whence) const {
    file_.attr("seek")(position, whence);
}

std::size_t PythonFile::read(std::uint8_t* into, std::size_t size) const {
    const nb::object piece = file_.attr("read")(size);
    if (PyObject_CheckBuffer(piece.ptr()) == 0) {
        const char* const remedy = PyUnicode_Check(piece.ptr()) ? ": open the file in binary mode"
                                   : piece.is_none()            ? ": a file that has nothing ready yet cannot be read"
                                                                : "";
        throw nb::type_error(("the file's read() must return bytes, got " + shown(piece) + remedy).c_str());
    }
    const HeldBytes bytes = hold_bytes(piece);
    if (bytes.size > size) {
        throw nb::value_error(("the file's read() returned " + std::to_string(bytes.size) + " bytes, more than the " +
                               std::to_string(size) + " that it was asked for")
                                  .c_str());
    }
    std::memcpy(into, bytes.data, bytes.size);
    return bytes.size;
}

void PythonFile::write(Bytes bytes) const {
    while (!bytes.empty()) {
        // A copy: the file may keep what it is given.
        const nb::object returned = file_.attr("write")(nb::bytes(bytes.data(), bytes.size()));
        // Only files without a buffer write less than they are given, and say so.
        const auto count = returned.is_none() ? static_cast<std::int64_t>(bytes.size()) : integer(returned).value_or(0);
        if (count <= 0 || count > static_cast<std::int64_t>(bytes.size())) {
            refuse_count(returned, bytes.size());
        }
        bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
}

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
