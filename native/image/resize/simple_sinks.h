#pragma once

#include <cstddef>
#include <vector>

#include "core/row_sink.h"
#include "image/resize/resample_table.h"
#include "image/resize/row_ring.h"
#include "image/write/row_writer.h"
#include "media/place.h"

namespace spdl {

// For an image that keeps its size: rows are decoded into their final place if possible.
class CopySink final : public RowSink {
  public:
    void begin(const DecodedRows& source, RowWriter& writer);
    std::uint8_t* row(int y) noexcept override { return in_place_ ? writer_->row(y) : source_.row(y); }
    void commit(int y, int count) noexcept override;

  private:
    RowWriter* writer_ = nullptr;
    bool in_place_ = false;
    RowRing source_;
};

// The nearest samples along one axis.
struct NearestTable {
    int source = 0;            // The first sample of the input that is needed,
    int source_count = 0;      // and how many from there on.
    std::vector<int> samples;  // For each output, counted from `source`.

    // Takes the same positions as Pillow.
    void build(const Axis& axis);
};

class NearestSink final : public RowSink {
  public:
    void begin(const NearestTable& columns, const NearestTable& rows, const DecodedRows& source, RowWriter& writer);
    std::uint8_t* row(int y) noexcept override { return source_.row(y); }
    void commit(int y, int count) noexcept override;

  private:
    const NearestTable* columns_ = nullptr;
    const NearestTable* rows_ = nullptr;
    RowWriter* writer_ = nullptr;
    RowRing source_;
    std::size_t next_ = 0;
};

}  // namespace spdl
