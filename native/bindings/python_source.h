#pragma once

#include <nanobind/nanobind.h>

#include "bindings/python_file.h"
#include "core/byte_source.h"

namespace spdl {

// A binary file of Python's, read from its position on. It is called with the GIL held, which the callers of its
// functions need not hold. What Python raises comes as nanobind::python_error.
class PythonSource final : public ByteSource {
  public:
    // Needs the GIL, as the destructor takes it.
    explicit PythonSource(nanobind::object file);
    ~PythonSource() override;

    [[nodiscard]] std::int64_t size() override { return size_; }
    std::size_t read(std::uint8_t* into, std::size_t size) override;
    void seek(std::int64_t position) override;

  private:
    PythonFile file_;
    std::int64_t begin_ = 0;
    std::int64_t size_ = kUnknown;
};

}  // namespace spdl
