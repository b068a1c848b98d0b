#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/buffer.h"
#include "core/geometry.h"
#include "image/resize/kernels.h"
#include "image/resize/resample_table.h"
#include "image/write/pixel_writers.h"
#include "media/pixel_format.h"
#include "media/place.h"

namespace spdl {

// The last few of the rows of an image or of a plane.
class RowRing {
  public:
    // Makes room for `rows` rows of `bytes` bytes, whose first `skipped` do not count, and for `slack` bytes after each
    // row that vectors may touch. The content is lost.
    void begin(int rows, std::size_t bytes, std::size_t slack, std::size_t skipped = 0) {
        const std::size_t slots = std::bit_ceil(static_cast<unsigned>(rows));
        const std::size_t needed = kOffset + bytes + slack;
        stride_ = (needed + AlignedBuffer::kAlignment - 1) / AlignedBuffer::kAlignment * AlignedBuffer::kAlignment;
        memory_.reserve(slots * stride_);
        mask_ = slots - 1;
        skipped_ = skipped;
    }

    // Returns the place to write a row to.
    [[nodiscard]] std::uint8_t* row(int y) const {
        return memory_.data() + (static_cast<std::size_t>(y) & mask_) * stride_ + kOffset;
    }

    // Returns the part of a row that counts.
    [[nodiscard]] const std::uint8_t* pixels(int y) const { return row(y) + skipped_; }

  private:
    // libjpeg-turbo writes rows that are aligned to 32 bytes with non-temporal stores, which go to memory and have to
    // be read back. Rows that start 16 bytes off stay in the cache.
    static constexpr std::size_t kOffset = 16;

    AlignedBuffer memory_;
    std::size_t stride_ = 0;
    std::size_t mask_ = 0;
    std::size_t skipped_ = 0;
};

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

// The resampling along both axes of the stored image.
struct Resampling {
    Axis horizontal;
    Axis vertical;
    Interpolation interpolation = Interpolation::kBilinear;
    bool exact = true;            // If false, the result may be a level off.
    bool vertical_first = false;  // The order of the passes if there are two; they round differently.
};

// One thread's sinks, kept with their memory from image to image.
class Resizer {
  public:
    // Prepares for a resampling, and returns the part of the input that it needs.
    Box prepare(const Resampling& resampling);

    // Returns the sink for that part of the input, which takes it row by row.
    RowSink& begin(const DecodedRows& source, const Canvas& canvas, const Target& target);

    void pad(const Canvas& canvas);

  private:
    Resampling resampling_;
    FilterPlan plan_;
    TableCache tables_;
    NearestTable nearest_columns_;
    NearestTable nearest_rows_;
    RowWriter writer_;
    CopySink copy_;
    NearestSink nearest_;
    HorizontalFirstSink horizontal_first_;
    VerticalFirstSink vertical_first_;
};

struct PlaneBoxes {
    Box luma;
    Box chroma;
};

// Resizes the planes of an image, each by itself, and then turns their rows into pixels. That takes less than the
// conversion of an image at its full size, with chroma upsampled before. Each plane gets the results of Pillow's resize
// of a gray image, one side after the other.
//
// One thread's memory for that, kept from image to image.
class PlaneResizer final : public PlaneSink {
  public:
    // Prepares for a resampling of luma and one of chroma, both to the same size. Returns the parts of the planes that
    // it needs.
    PlaneBoxes prepare(const Resampling& luma, const Resampling& chroma);

    // Returns the sink for those parts.
    PlaneSink& begin(const DecodedPlanes& source, const Canvas& canvas, const Target& target);

    std::uint8_t* row(Plane plane, int y) noexcept override { return planes_[plane].source.row(y); }
    void commit(int luma, int chroma) noexcept override;

  private:
    // The resize of one kind of plane.
    struct Tables {
        TableCache cache;
        const ResampleTable* horizontal = nullptr;
        const ResampleTable* vertical = nullptr;

        Box prepare(const Resampling& resampling, const Kernels& kernels);
    };

    // One plane on its way. Rows are narrowed as they come, a few at a time, into a ring that is as long as the
    // vertical pass needs it.
    struct Stages {
        RowRing source;
        RowRing narrowed;
        VerticalPass vertical;
        AlignedBuffer output;
        int rows = 0;   // How many are needed,
        int ready = 0;  // and how many of them are narrowed.

        void begin(const Tables& tables, const PlaneRows& decoded, const Kernels& kernels);
        void narrow(const Tables& tables, int end, const Kernels& kernels);
        const std::uint8_t* next_row(const Tables& tables);
    };

    const Kernels* kernels_ = nullptr;
    Tables luma_;
    Tables chroma_;
    std::array<Stages, kPlanes> planes_;
    RowWriter writer_;
    bool blue_first_ = false;
};

}  // namespace spdl
