#pragma once

#include <nanobind/nanobind.h>

#include <string_view>

#include "core/bytes.h"

namespace spdl {

// The bytes of a Python object, in place: one dimension of single bytes, C-contiguous. Created and destroyed with the
// GIL held.
class PythonBytes {
  public:
    // Raises TypeError for anything else.
    explicit PythonBytes(nanobind::handle object);
    PythonBytes(PythonBytes&& other) noexcept;
    PythonBytes(const PythonBytes&) = delete;
    PythonBytes& operator=(const PythonBytes&) = delete;
    PythonBytes& operator=(PythonBytes&&) = delete;
    ~PythonBytes();

    [[nodiscard]] Bytes get() const {
        return {static_cast<const std::uint8_t*>(view_.buf), static_cast<std::size_t>(view_.len)};
    }

  private:
    Py_buffer view_{};
};

// A path as the system takes it. Names that are not UTF-8 come as Python spells them, with surrogate escapes.
class PythonPath {
  public:
    explicit PythonPath(nanobind::str path);

    // A null character follows the path, and may also lie in it.
    [[nodiscard]] std::string_view get() const { return text_; }

  private:
    nanobind::object encoded_;  // An ASCII string is held itself, so nothing is allocated.
    std::string_view text_;
};

}  // namespace spdl
