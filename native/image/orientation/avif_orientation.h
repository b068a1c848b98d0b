#pragma once

#include "core/bytes.h"

namespace spdl {

// How an AVIF (or another file of its family) says that its main picture is to be turned and mirrored, as EXIF numbers
// it: from 1 to 8, and 0 where it says nothing.
unsigned avif_orientation(Bytes avif) noexcept;

}  // namespace spdl
