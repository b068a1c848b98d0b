#pragma once

#include <optional>

#include "core/bytes.h"
#include "core/geometry.h"

namespace spdl {

// The planes of a JPEG that nvJPEG decodes.
struct JpegPlanesShape {
    Size size;
    bool chroma = false;  // Besides luma, two planes of chroma; otherwise the image is gray.
    Size grid{1, 1};      // How many pixels share a chroma sample.
};

// Looks through a JPEG. Returns nothing if it is of a kind that nvJPEG does not decode as our own decoder does, or if
// it is damaged: progressive, of more than 8 bits, arithmetic, lossless, CMYK, stored as RGB, in several scans, or with
// a marker among its pixels.
std::optional<JpegPlanesShape> planes_for_gpu(Bytes jpeg);

}  // namespace spdl
