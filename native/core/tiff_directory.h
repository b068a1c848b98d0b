#pragma once

#include <cstdint>
#include <optional>

#include "core/file_reader.h"

namespace spdl {

// The value of an entry of a TIFF's first directory: one integer of any size. Whatever the bytes are, nothing outside
// of them is read.
std::optional<std::uint32_t> tiff_entry(Bytes tiff, std::uint16_t tag) noexcept;

// Whether it has such an entry, whatever its values are.
bool has_tiff_entry(Bytes tiff, std::uint16_t tag) noexcept;

}  // namespace spdl
