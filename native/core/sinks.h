#pragma once

#include <cstdint>

namespace spdl {

// Takes an image row by row, from the top, as packed RGB bytes. A decoder asks for the place of a row, writes it there,
// and reports it. The calls never throw, because libjpeg may leave the frames that make them by longjmp.
class RowSink {
  public:
    // A decoder asks for at most this many rows before it commits them.
    static constexpr int kMaxRows = 4;

    virtual ~RowSink() = default;

    // Returns where to write row `y`: 3 * width bytes.
    virtual std::uint8_t* row(int y) noexcept = 0;

    // Rows [y, y + count) are written.
    virtual void commit(int y, int count) noexcept = 0;

    RowSink() = default;
    RowSink(const RowSink&) = delete;
    RowSink& operator=(const RowSink&) = delete;
};

// The planes of an image in YCbCr. Those of chroma are alike.
enum Plane { kLuma, kBlueChroma, kRedChroma };
inline constexpr int kPlanes = 3;

// Takes an image as planes, from the top, some rows of each at a time. A decoder asks for the place of a row, writes it
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
