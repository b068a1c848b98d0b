#pragma once

namespace spdl {

// A fraction, such as the unit of timestamps in seconds.
struct Rational {
    int numerator = 0;
    int denominator = 1;
};

}  // namespace spdl
