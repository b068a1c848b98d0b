#pragma once

#include <stdexcept>
#include <string>

namespace spdl {

// Bytes that are not what their format says they are, or that say what cannot be. Python sees spdl.io.FormatError.
class FormatError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

}  // namespace spdl
