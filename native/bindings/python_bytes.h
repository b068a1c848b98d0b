#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
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

// The bytes of a Python object, in place, as long as `owner` lives. An array that shows them keeps the owner.
struct HeldBytes {
    nanobind::object owner;
    std::uint8_t* data = nullptr;
    std::size_t size = 0;
    bool writable = false;

    [[nodiscard]] Bytes get() const { return {data, size}; }
};

// Takes an object with the buffer protocol that holds contiguous bytes; raises TypeError or BufferError for anything
// else.
HeldBytes hold_bytes(nanobind::handle object);

}  // namespace spdl
