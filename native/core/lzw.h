#pragma once

#include <cstddef>
#include <optional>

#include "core/bytes.h"

namespace spdl {

// Returns how many bytes the LZW codes of a GIF stand for, or `wanted` as soon as there are as many; nothing if a code
// means nothing. `bits` is the size of the bytes, 1 to 11.
std::optional<std::size_t> gif_lzw_length(Bytes codes, unsigned bits, std::size_t wanted);

}  // namespace spdl
