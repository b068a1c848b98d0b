#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>

#include "core/bytes.h"

namespace spdl {

// A binary file of Python's, whose methods may be anybody's: what they return is checked, and errors say which method
// it was. All functions need the GIL. What Python raises comes as nanobind::python_error.
class PythonFile {
  public:
    explicit PythonFile(nanobind::object file);

    [[nodiscard]] bool can_seek() const { return can_seek_; }

    // Returns the position in bytes.
    [[nodiscard]] std::int64_t tell() const;

    void seek(std::int64_t position, int whence = 0) const;

    // Reads at most `size` bytes, and returns how many there were; 0 at the end.
    std::size_t read(std::uint8_t* into, std::size_t size) const;

    // Writes all bytes.
    void write(Bytes bytes) const;

    // Lets go of the object.
    void reset() { file_.reset(); }

  private:
    nanobind::object file_;
    bool can_seek_ = false;
};

}  // namespace spdl
