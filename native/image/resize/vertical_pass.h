#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "image/resize/kernels.h"
#include "image/resize/resample_table.h"
#include "image/resize/row_ring.h"

namespace spdl {

// The vertical pass over a window of rows that moves down the image.
class VerticalPass {
  public:
    void begin(const Kernels& kernels, const ResampleTable& table);

    // Returns whether the next output row needs no row from `available` on.
    [[nodiscard]] bool ready(int available) const;

    // Writes the next output row, of `bytes` bytes, from `rows`.
    void write_next(const RowRing& rows, std::size_t bytes, std::uint8_t* to);

    // Returns the number of the next output row.
    [[nodiscard]] int next() const { return next_; }

  private:
    const Kernels* kernels_ = nullptr;
    const ResampleTable* table_ = nullptr;
    std::vector<const std::uint8_t*> window_;
    int next_ = 0;
};

}  // namespace spdl
