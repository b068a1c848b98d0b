#pragma once

#include <nanobind/nanobind.h>

#include <utility>

#include "image/buffer.h"

namespace spdl {

// The Python object over an array; what could not be loaded into it comes along.
class CpuBuffer {
  public:
    explicit CpuBuffer(Buffer array) : buffer(std::move(array)) {}
    CpuBuffer(CpuBuffer&&) = default;
    CpuBuffer(const CpuBuffer&) = delete;
    CpuBuffer& operator=(const CpuBuffer&) = delete;
    CpuBuffer& operator=(CpuBuffer&&) = delete;
    ~CpuBuffer();

    Buffer buffer;
    nanobind::object failures = nanobind::tuple();
};

void bind_buffer(nanobind::module_& module);

}  // namespace spdl
