#pragma once

#include <cstdint>
#include <span>

namespace spdl {

// Bytes to read, which somebody else owns.
using Bytes = std::span<const std::uint8_t>;

}  // namespace spdl
