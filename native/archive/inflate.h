#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/bytes.h"

namespace spdl {

// What inflates one stream of bytes into as many as are expected, neither more nor fewer. Each thread has its own
// state, which it keeps. Throw FormatError where the stream is damaged or has another length.
void inflate_deflate(Bytes compressed, std::span<std::uint8_t> into);
void inflate_zstd(Bytes compressed, std::span<std::uint8_t> into);

// Whether deflate can at all make so much out of so little: what says it does lies, and is to be given no memory.
bool deflate_can_make(std::size_t size, std::size_t compressed_size);

// The checksum of zip archives, of what comes behind bytes with the checksum `before`.
std::uint32_t crc32(Bytes data, std::uint32_t before = 0);

}  // namespace spdl
