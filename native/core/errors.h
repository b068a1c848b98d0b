#pragma once

#include <stdexcept>
#include <string>

namespace spdl {

// An input that cannot be read, decoded or converted. Python sees a RuntimeError with the same text.
class MediaError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// A file is damaged or cut off at some place. The part that was read before is intact.
class DamageError : public MediaError {
  public:
    using MediaError::MediaError;
};

// There is no room for an array: the request is at fault, not the input.
class ArrayError : public MediaError {
  public:
    using MediaError::MediaError;
};

// Bytes that break the rules of their format, or that describe something impossible. Python sees spdl.io.FormatError.
class FormatError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

}  // namespace spdl
