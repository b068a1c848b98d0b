#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <utility>

#include "bindings/load_report.h"
#include "core/buffer.h"

namespace spdl {

// The Python object over an array, with the failures of loading it.
class CpuBuffer {
  public:
    explicit CpuBuffer(Buffer array) : buffer(std::move(array)) {}
    CpuBuffer(CpuBuffer&&) = default;
    CpuBuffer(const CpuBuffer&) = delete;
    CpuBuffer& operator=(const CpuBuffer&) = delete;
    CpuBuffer& operator=(CpuBuffer&&) = delete;
    ~CpuBuffer();

    Buffer buffer;
    LoadReport report;
};

// The Python object over a storage.
class CpuStorage {
  public:
    explicit CpuStorage(std::unique_ptr<Storage> memory) : storage(std::move(memory)) {}
    CpuStorage(const CpuStorage&) = delete;
    CpuStorage& operator=(const CpuStorage&) = delete;
    ~CpuStorage();

    std::unique_ptr<Storage> storage;
};

// Returns a block of a CPUStorage that nothing else uses, or the writable buffer of any other object; nothing for None.
std::optional<Memory> take_memory(const nanobind::object& storage);

void bind_buffer(nanobind::module_& module);

}  // namespace spdl
