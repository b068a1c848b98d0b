#pragma once

#include <cstddef>
#include <string_view>

#include "archive/tar_parser.h"
#include "core/bytes.h"

namespace spdl {

// Goes through a tar archive in memory.
class TarWalk {
  public:
    explicit TarWalk(Bytes archive) : archive_(archive) {}

    // Finds the content of the next regular file; name() is its name then. Returns false at the end. Throws
    // FormatError.
    bool next(Bytes& content);

    [[nodiscard]] std::string_view name() const { return parser_.name(); }

  private:
    Bytes archive_;
    TarParser parser_;
    std::size_t place_ = 0;
};

}  // namespace spdl
