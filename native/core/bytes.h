#pragma once

#include <cstdint>
#include <span>

namespace spdl {

// Bytes to be read, which somebody else owns.
using Bytes = std::span<const std::uint8_t>;

}  // namespace spdl
