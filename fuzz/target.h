#pragma once

#include <cstdint>
#include <span>
#include <vector>

// What a program of this folder fuzzes; driver.cpp is the rest of it.

namespace spdl::fuzz {

using Input = std::vector<std::uint8_t>;

// Gives the input to what is fuzzed. Returns whether it got past the header, so
// that its content was looked at. Errors that are an answer to bad input are
// caught here; whatever else is thrown is a fault.
bool run(std::span<const std::uint8_t> input);

// Mends what nearly every change breaks, such as checksums, so that the change
// is seen and not only that there is one.
void mend(Input& input);

}  // namespace spdl::fuzz
