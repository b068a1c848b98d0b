#pragma once

#include <stdexcept>
#include <string>

namespace spdl {

// Bytes that break the rules of their format, or that describe something impossible. Python sees spdl.io.FormatError.
class FormatError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

}  // namespace spdl
