#pragma once

#include <string>

#include "core/geometry.h"
#include "media/rational.h"

namespace spdl {

// The properties that an encoded image states.
struct CodecInfo {
    std::string name;
    Size size;
    std::string pixel_format;
    Rational time_base;
    Rational sample_aspect_ratio;
};

}  // namespace spdl
