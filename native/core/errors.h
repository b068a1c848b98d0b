#pragma once

#include <cstddef>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

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

// Throws std::bad_alloc unless a library had the memory that it was asked for.
inline void require_memory(bool had) {
    if (!had) {
        throw std::bad_alloc();
    }
}

// An input of a batch that failed, by its index.
struct Failure {
    std::size_t index;
    std::string reason;
};

// Does the work for one input. Returns why that failed; empty if it did not. Throws if the request is at fault.
template <typename Work>
std::string reason_of_failure(const Work& work) {
    try {
        work();
        return {};
    } catch (const ArrayError&) {
        throw;
    } catch (const MediaError& error) {
        return error.what();
    }
}

// Returns the failures among the inputs, by their reasons, which are empty for the others.
inline std::vector<Failure> failures_of(std::vector<std::string> reasons) {
    std::vector<Failure> failures;
    for (std::size_t index = 0; index < reasons.size(); ++index) {
        if (!reasons[index].empty()) {
            failures.push_back({index, std::move(reasons[index])});
        }
    }
    return failures;
}

}  // namespace spdl
