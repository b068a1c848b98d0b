#pragma once

#include <cstdint>
#include <span>
#include <vector>

// The part of a program in this folder that differs from target to target; driver.cpp is the rest.

namespace spdl::fuzz {

using Input = std::vector<std::uint8_t>;

// Passes the input to the fuzzed code. Returns whether it got past the header, so that its content was looked at.
// Errors that answer bad input are caught here; any other exception is a fault.
bool run(std::span<const std::uint8_t> input);

// Repairs what nearly every change breaks, such as checksums, so that the code sees the change and not only that there
// is one.
void mend(Input& input);

}  // namespace spdl::fuzz
