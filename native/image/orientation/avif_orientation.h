#pragma once

#include "core/bytes.h"

namespace spdl {

// Returns how an AVIF (or another file of its family) wants its main picture turned and mirrored, in EXIF's numbers:
// from 1 to 8, and 0 if it does not say.
unsigned avif_orientation(Bytes avif);

}  // namespace spdl
