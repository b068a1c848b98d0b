#pragma once

#include <cstdint>

#include "core/geometry.h"
#include "core/row_sink.h"
#include "image/resize/kernels.h"
#include "image/resize/resample_table.h"
#include "image/resize/row_ring.h"
#include "image/resize/vertical_pass.h"
#include "image/write/row_writer.h"
#include "media/place.h"

namespace spdl {

// One resize: its kernels and its tables. A side that is only copied has none.
struct FilterPlan {
    const Kernels* kernels = nullptr;
    const HorizontalPass* pass = nullptr;
    const ResampleTable* horizontal = nullptr;
    const ResampleTable* vertical = nullptr;
    Size from;  // The size of the part of the input that is needed.
    Size size;
    bool vertical_first = false;
};

// Both sinks are Pillow's resize. An image comes row by row. The first pass runs on rows as they come, into a small
// ring, and the second pass runs as soon as its rows are there. The image is never stored at its full size.
class HorizontalFirstSink final : public RowSink {
  public:
    void begin(const FilterPlan& plan, const DecodedRows& source, RowWriter& writer);
    std::uint8_t* row(int y) noexcept override;
    void commit(int y, int count) noexcept override;

  private:
    // The passes wait for this many rows: a row of blocks if chroma is subsampled. Their tables fill much of the
    // first-level cache, and so does libjpeg's working memory. Taking turns less often than at every row or two makes
    // both faster.
    static constexpr int kCollected = 16;

    FilterPlan plan_;
    RowWriter* writer_ = nullptr;
    int waiting_ = 0;  // The first row that waits.
    RowRing source_;
    RowRing narrowed_;
    VerticalPass vertical_;
};

class VerticalFirstSink final : public RowSink {
  public:
    void begin(const FilterPlan& plan, const DecodedRows& source, RowWriter& writer);
    std::uint8_t* row(int y) noexcept override { return source_.row(y); }
    void commit(int y, int count) noexcept override;

  private:
    FilterPlan plan_;
    RowWriter* writer_ = nullptr;
    RowRing source_;
    RowRing shortened_;
    RowRing output_;  // The horizontal pass writes whole vectors.
    VerticalPass vertical_;
};

}  // namespace spdl
