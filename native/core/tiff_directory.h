#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/file_reader.h"

namespace spdl {

// Entries of a TIFF's first directory; of several with one tag the last, as FFmpeg has it. Whatever the bytes are,
// nothing outside of them is read.

// The value of an entry that has one: an integer of any size.
std::optional<std::uint32_t> tiff_entry(Bytes tiff, std::uint16_t tag) noexcept;

// All its integers; none where there is no such entry, or where it has others than that.
std::vector<std::uint32_t> tiff_values(Bytes tiff, std::uint16_t tag);

// Whether there is such an entry, whatever its values are.
bool has_tiff_entry(Bytes tiff, std::uint16_t tag) noexcept;

}  // namespace spdl
