#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/aligned_buffer.h"

namespace spdl {

// The last few of the rows of an image or of a plane.
class RowRing {
  public:
    // Makes room for `rows` rows of `bytes` bytes, of which the first `skipped` do not count, and for `slack` bytes
    // behind each row that vectors may touch. The content is lost.
    void begin(int rows, std::size_t bytes, std::size_t slack, std::size_t skipped = 0) {
        const std::size_t slots = std::bit_ceil(static_cast<unsigned>(rows));
        const std::size_t needed = kOffset + bytes + slack;
        stride_ = (needed + AlignedBuffer::kAlignment - 1) / AlignedBuffer::kAlignment * AlignedBuffer::kAlignment;
        memory_.reserve(slots * stride_);
        mask_ = slots - 1;
        skipped_ = skipped;
    }

    // Returns where a row is written.
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

}  // namespace spdl
