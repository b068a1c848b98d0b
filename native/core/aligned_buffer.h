#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#include "core/large_blocks.h"

namespace spdl {

// Memory for pixels. It is aligned for the widest vectors, and not initialised because every user fills it.
class AlignedBuffer {
  public:
    static constexpr std::size_t kAlignment = 64;

    AlignedBuffer() = default;
    explicit AlignedBuffer(std::size_t size) : size_(size) {
        if (size >= kLargeBlock) {
            data_ = {static_cast<std::uint8_t*>(take_large_block(size)), Free{size}};
            return;
        }
        const std::size_t rounded = (size + kAlignment - 1) / kAlignment * kAlignment;
        data_.reset(static_cast<std::uint8_t*>(std::aligned_alloc(kAlignment, rounded == 0 ? kAlignment : rounded)));
        if (!data_) {
            throw std::bad_alloc();
        }
    }

    // Makes room for `size` bytes. The content is lost if the buffer has to grow.
    void reserve(std::size_t size) {
        if (size > size_) {
            *this = AlignedBuffer();
            *this = AlignedBuffer(size);
        }
    }

    [[nodiscard]] std::uint8_t* data() const noexcept { return data_.get(); }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }

  private:
    struct Free {
        Free() noexcept : large(0) {}
        explicit Free(std::size_t size) noexcept : large(size) {}

        // The size of a large block; 0 for memory of malloc's.
        std::size_t large;

        void operator()(std::uint8_t* memory) const noexcept {
            if (large > 0) {
                give_large_block(memory, large);
            } else {
                std::free(memory);
            }
        }
    };
    std::unique_ptr<std::uint8_t, Free> data_;
    std::size_t size_ = 0;
};

}  // namespace spdl
