#pragma once

#include <string_view>

#include "core/aligned_buffer.h"
#include "core/bytes.h"

namespace spdl {

// Reads whole files into memory, which it keeps for the next file.
class FileReader {
  public:
    // Returns the content of the file at `path`, valid until the next read. A null character must follow the path.
    // Throws MediaError if the file cannot be read.
    Bytes read(std::string_view path);

  private:
    AlignedBuffer memory_;
};

}  // namespace spdl
