#pragma once

#include <cstddef>
#include <cstdint>

#include "core/bytes.h"

namespace spdl {

// A file in memory, read-only, for as long as this lives. It keeps no descriptor: a program may have more arrays than
// it may have files open.
class MappedFile {
  public:
    // Throws std::system_error with what open, fstat or mmap say.
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
