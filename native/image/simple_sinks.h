#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "image/geometry.h"
#include "image/row_ring.h"
#include "image/row_sink.h"

namespace spdl {

// The image keeps its size: rows are decoded into their final place.
class CopySink final : public RowSink {
  public:
    void begin(Pixels to) { to_ = to; }
    std::uint8_t* row(int y) noexcept override { return to_.row(y); }
    void commit(int /*y*/, int /*count*/) noexcept override {}

  private:
    Pixels to_;
};

// The nearest sample, at the positions that Pillow takes.
class NearestSink final : public RowSink {
  public:
    void begin(Size from, Size size, Pixels to);
    std::uint8_t* row(int y) noexcept override { return source_.row(y); }
    void commit(int y, int count) noexcept override;

  private:
    Size size_;
    Pixels to_;
    RowRing source_;
    std::vector<std::size_t> columns_;  // The byte at which each output column's source pixel starts.
    std::vector<int> rows_;             // The source row of each output row.
    int next_ = 0;
};

}  // namespace spdl
