#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/bytes.h"

namespace spdl {

// Inflates one stream of bytes into exactly as many bytes as expected. Each thread keeps a state of its own. These
// throw FormatError if the stream is damaged or has another length.
void inflate_deflate(Bytes compressed, std::span<std::uint8_t> into);
void inflate_zstd(Bytes compressed, std::span<std::uint8_t> into);

// Returns whether deflate can make so much out of so little at all. If not, the header lies, and no memory may be taken
// for it.
bool deflate_can_make(std::size_t size, std::size_t compressed_size);

// Returns the checksum of zip archives for bytes that follow others with the checksum `before`.
std::uint32_t crc32(Bytes data, std::uint32_t before = 0);

}  // namespace spdl
