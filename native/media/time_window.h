#pragma once

#include <cstdint>
#include <optional>

namespace spdl {

// A moment in seconds, as a fraction. The denominator is positive.
struct Moment {
    std::int64_t numerator = 0;
    int denominator = 1;
};

// The moments from `start` on, which belongs to them, to `end`, which does not. A bound that is missing bounds nothing.
struct TimeWindow {
    std::optional<Moment> start;
    std::optional<Moment> end;

    [[nodiscard]] bool whole() const { return !start && !end; }
};

}  // namespace spdl
