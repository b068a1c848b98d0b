#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/aligned_buffer.h"

namespace spdl {

// The last few of an image's rows, as packed RGB.
class RowRing {
  public:
    // Makes room for `rows` rows of `width` pixels, of which the first `skipped` do not count, and for `slack` bytes
    // behind each row that vectors may touch. The content is lost.
    void begin(int rows, int width, std::size_t slack, int skipped = 0) {
        const std::size_t slots = std::bit_ceil(static_cast<unsigned>(rows));
        const std::size_t needed = kOffset + 3 * static_cast<std::size_t>(width) + slack;
        stride_ = (needed + AlignedBuffer::kAlignment - 1) / AlignedBuffer::kAlignment * AlignedBuffer::kAlignment;
        memory_.reserve(slots * stride_);
        mask_ = slots - 1;
        skipped_ = 3 * static_cast<std::size_t>(skipped);
    }

    // Returns where a row is written.
    [[nodiscard]] std::uint8_t* row(int y) const {
        return memory_.data() + (static_cast<std::size_t>(y) & mask_) * stride_ + kOffset;
    }

    // Returns the pixels of a row that count.
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

}  // namespace spdl
