#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "image/geometry.h"
#include "image/interpolation.h"
#include "image/kernels.h"
#include "image/resample_table.h"
#include "image/row_ring.h"
#include "image/row_sink.h"

namespace spdl {

// One resize: its kernels and its tables, none for a side that keeps its length.
struct FilterPlan {
    const Kernels* kernels = nullptr;
    const ResampleTable* horizontal = nullptr;
    const ResampleTable* vertical = nullptr;
    Size from;
    Size size;

    // The two orders round differently; this is how Pillow 13 chooses between them (found by probing it).
    [[nodiscard]] bool vertical_first() const {
        return horizontal != nullptr && size.height < from.height &&
               2 * (from.width - size.width) < from.height - size.height;
    }
};

// Makes plans, and keeps the tables of the last few: most folders have a few image sizes, and a table costs as much as
// a tenth of a small image's resize.
class FilterPlanner {
  public:
    // Valid until the next one.
    FilterPlan plan(Size from, Size size, Interpolation interpolation);

  private:
    struct Tables {
        std::array<ResampleTable, 4> tables;
        std::size_t oldest = 0;
        const ResampleTable* get(int from, int to, Interpolation interpolation, void (*pack)(ResampleTable&));
    };

    const Kernels* kernels_ = nullptr;
    Tables horizontal_;
    Tables vertical_;
};

// The vertical pass over a window of rows that moves down the image.
class VerticalPass {
  public:
    void begin(const FilterPlan& plan);

    // True where the next output row needs no row from `available` on.
    [[nodiscard]] bool ready(int available) const;

    // Writes the next output row, of `width` pixels, from `rows`, and returns its number.
    int write_next(const RowRing& rows, int width, std::uint8_t* to);

    [[nodiscard]] int next() const { return next_; }

  private:
    FilterPlan plan_;
    std::vector<const std::uint8_t*> window_;
    int next_ = 0;
};

// Both are Pillow's resize: an image comes row by row, the first pass runs on rows as they come, into a small ring, and
// the second as soon as its rows are there. The image at its full size is never stored.
class HorizontalFirstSink final : public RowSink {
  public:
    void begin(const FilterPlan& plan, Pixels to);
    std::uint8_t* row(int y) noexcept override;
    void commit(int y, int count) noexcept override;

  private:
    // How many rows the passes wait for: a row of blocks, where chroma is subsampled. Their tables fill much of the
    // first cache, as does what libjpeg works with: taking turns less often than at every row or two makes both faster.
    static constexpr int kCollected = 16;

    FilterPlan plan_;
    Pixels to_;
    int waiting_ = 0;  // The first row that waits.
    RowRing source_;
    RowRing narrowed_;
    VerticalPass vertical_;
};

class VerticalFirstSink final : public RowSink {
  public:
    void begin(const FilterPlan& plan, Pixels to);
    std::uint8_t* row(int y) noexcept override { return source_.row(y); }
    void commit(int y, int count) noexcept override;

  private:
    FilterPlan plan_;
    Pixels to_;
    RowRing source_;
    RowRing shortened_;
    RowRing output_;
    VerticalPass vertical_;
};

}  // namespace spdl
