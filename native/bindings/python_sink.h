#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

#include "bindings/python_file.h"
#include "core/byte_sink.h"

namespace spdl {

// A binary file of Python's, written from its position on. Where the file can seek, its user may move the position
// meanwhile. It is called with the GIL held, which the callers of its functions need not hold. What Python raises comes
// as nanobind::python_error.
class PythonSink final : public ByteSink {
  public:
    // Needs the GIL, as the destructor takes it.
    explicit PythonSink(nanobind::object file);
    ~PythonSink() override;

    [[nodiscard]] bool can_seek() const override { return can_seek_; }
    void write(Bytes bytes) override;
    void seek(std::int64_t position) override;
    std::size_t read_back(std::int64_t position, std::uint8_t* into, std::size_t size) override;

  private:
    PythonFile file_;
    bool can_seek_ = false;
    std::int64_t begin_ = 0;
    std::int64_t position_ = 0;  // Where the next bytes belong, from `begin_` on.
};

}  // namespace spdl
