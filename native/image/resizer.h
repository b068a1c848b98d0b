#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/aligned_buffer.h"
#include "image/geometry.h"
#include "image/interpolation.h"
#include "image/kernels.h"
#include "image/resample_table.h"
#include "image/row_sink.h"

namespace spdl {

// Where pixels go: rows of packed RGB, `stride` bytes apart.
struct Pixels {
    std::uint8_t* data = nullptr;
    std::size_t stride = 0;

    [[nodiscard]] std::uint8_t* row(int y) const { return data + static_cast<std::size_t>(y) * stride; }
};

// The image keeps its size: rows are decoded into their final place.
class CopySink final : public RowSink {
  public:
    void begin(Pixels to) { to_ = to; }
    std::uint8_t* row(int y) noexcept override { return to_.row(y); }
    void commit(int y, int count) noexcept override;

  private:
    Pixels to_;
};

// The nearest sample, at the positions that Pillow takes.
class NearestSink final : public RowSink {
  public:
    void begin(Size from, Size size, Pixels to);
    std::uint8_t* row(int y) noexcept override;
    void commit(int y, int count) noexcept override;

  private:
    Size size_;
    Pixels to_;
    AlignedBuffer source_;
    std::size_t source_stride_ = 0;
    std::vector<std::size_t> columns_;  // The byte at which each output column's source pixel starts.
    std::vector<int> rows_;             // The source row of each output row.
    int next_ = 0;
};

// Pillow's resize for every other interpolation: the horizontal pass runs on rows as they come, into a small ring, and
// the vertical pass as soon as the rows of an output row are there. The image at its full size is never stored.
class FilterSink final : public RowSink {
  public:
    void begin(Size from, Size size, Interpolation interpolation, Pixels to);
    std::uint8_t* row(int y) noexcept override;
    void commit(int y, int count) noexcept override;

  private:
    // Most folders have a few image sizes; a table costs as much as a tenth of a small image's resize.
    struct Tables {
        std::array<ResampleTable, 4> tables;
        std::size_t oldest = 0;
        const ResampleTable& get(int from, int to, Interpolation interpolation, void (*pack)(ResampleTable&));
    };

    [[nodiscard]] std::uint8_t* ring_row(int y) const {
        return ring_.data() + (static_cast<std::size_t>(y) & ring_mask_) * ring_stride_;
    }

    const Kernels* kernels_ = nullptr;
    Tables horizontal_tables_;
    Tables vertical_tables_;
    const ResampleTable* horizontal_ = nullptr;  // None where the width stays.
    const ResampleTable* vertical_ = nullptr;    // None where the height stays.
    Size size_;
    Pixels to_;
    AlignedBuffer source_;
    std::size_t source_stride_ = 0;
    AlignedBuffer ring_;
    std::size_t ring_stride_ = 0;
    std::size_t ring_mask_ = 0;
    std::vector<const std::uint8_t*> window_;
    int next_ = 0;
};

// One thread's sinks, kept with their memory from image to image.
class Resizer {
  public:
    // The sink that brings an image of size `from` to `size` and writes it to `to`.
    RowSink& begin(Size from, Size size, Interpolation interpolation, Pixels to);

  private:
    CopySink copy_;
    NearestSink nearest_;
    FilterSink filter_;
};

}  // namespace spdl
