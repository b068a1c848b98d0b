#pragma once

#include <cstdint>
#include <span>

#include "core/aligned_buffer.h"

namespace spdl {

using Bytes = std::span<const std::uint8_t>;

// Reads whole files into memory that it keeps for the next one.
class FileReader {
  public:
    // The content of the file at `path`, valid until the next read. Throws MediaError where it cannot be read.
    Bytes read(const char* path);

  private:
    AlignedBuffer memory_;
};

}  // namespace spdl
