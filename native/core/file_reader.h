#pragma once

#include <string_view>

#include "core/aligned_buffer.h"
#include "core/bytes.h"

namespace spdl {

// Reads whole files into memory that it keeps for the next one.
class FileReader {
  public:
    // The content of the file at `path`, valid until the next read. A null character must follow the path. Throws
    // MediaError where the file cannot be read.
    Bytes read(std::string_view path);

  private:
    AlignedBuffer memory_;
};

}  // namespace spdl
