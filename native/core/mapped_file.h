#pragma once

#include <cstddef>
#include <cstdint>

#include "core/bytes.h"

namespace spdl {

// A file in memory, read-only, for the lifetime of this object. It keeps no descriptor, because a program may have more
// arrays than it may have files open.
class MappedFile {
  public:
    // Throws std::system_error with the error of open, fstat or mmap.
    explicit MappedFile(const char* path);
    MappedFile(MappedFile&& other) noexcept;
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;
    MappedFile& operator=(MappedFile&&) = delete;
    ~MappedFile();

    [[nodiscard]] Bytes get() const { return {data_, size_}; }

  private:
    const std::uint8_t* data_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace spdl
