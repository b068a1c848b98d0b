#pragma once

#include <cstdint>

namespace spdl {

// The planes of an image in YCbCr. Those of chroma are alike.
enum Plane { kLuma, kBlueChroma, kRedChroma };
inline constexpr int kPlanes = 3;

// Takes an image as planes, from the top, some rows of each at a time. A decoder asks where a row goes, writes it
// there, and reports it. As with RowSink, the calls never throw.
class PlaneSink {
  public:
    virtual ~PlaneSink() = default;

    // Returns where to write row `y` of a plane. Rows are counted from the first wanted one; those above it have
    // negative numbers.
    virtual std::uint8_t* row(Plane plane, int y) noexcept = 0;

    // All rows in front of `luma` and of `chroma` are written.
    virtual void commit(int luma, int chroma) noexcept = 0;

    PlaneSink() = default;
    PlaneSink(const PlaneSink&) = delete;
    PlaneSink& operator=(const PlaneSink&) = delete;
};

}  // namespace spdl
