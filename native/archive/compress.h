#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/bytes.h"

namespace spdl {

// Returns the size of the largest result for an input of `size` bytes.
std::size_t deflate_bound(std::size_t size);
std::size_t zstd_bound(std::size_t size);

// Compress at the libraries' default levels, and return the size of the result. `into` has the size above.
std::size_t deflate(Bytes data, std::span<std::uint8_t> into);
std::size_t zstd(Bytes data, std::span<std::uint8_t> into);

}  // namespace spdl
