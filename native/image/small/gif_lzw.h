#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/bytes.h"

namespace spdl {

// How many bytes behind those that are wanted may be written.
inline constexpr std::size_t kLzwSlack = 8;

// Decodes the LZW codes of a GIF until `wanted` bytes are made, and returns how many were; nothing if a code means
// nothing. `bits` is the size of the bytes, 1 to 11, of which the lower eight are kept.
std::optional<std::size_t> decode_gif_lzw(Bytes codes, unsigned bits, std::uint8_t* to, std::size_t wanted);

}  // namespace spdl
