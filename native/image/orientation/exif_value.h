#pragma once

#include <cstdint>
#include <optional>

#include "core/bytes.h"

namespace spdl {

// Returns the first number of an entry in the first directory of EXIF data, which are a TIFF file. It is not a number
// (NaN) if the entry has bytes or text, or if the data are no TIFF file. Returns nothing if there is no such entry.
// Damage counts as it does in Pillow: entries of unknown types, and those whose values take more than all the bytes,
// are left out; where values lie beyond the end, the directory ends.
std::optional<double> exif_value(Bytes exif, std::uint16_t tag);

}  // namespace spdl
