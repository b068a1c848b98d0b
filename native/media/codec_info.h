#pragma once

#include <string>

#include "core/geometry.h"
#include "media/rational.h"

namespace spdl {

// What an encoded image says about itself.
struct CodecInfo {
    std::string name;
    Size size;
    std::string pixel_format;
    Rational time_base;
    Rational sample_aspect_ratio;
};

}  // namespace spdl
