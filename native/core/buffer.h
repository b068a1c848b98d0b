#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string_view>
#include <vector>

namespace spdl {

// Memory from the system in whole pages, for blocks of kSmallestBlock bytes and more; in whole huge pages from
// kLargeBlock on. Freed blocks are kept for a while, for the next request of the same size.
//
// Threads allocate and free blocks of a batch's size. From malloc they end up scattered over the threads' arenas, which
// then hold several times the memory in use. And the system zeroes fresh pages one by one.
constexpr std::size_t kSmallestBlock = std::size_t{64} << 10;
constexpr std::size_t kLargeBlock = std::size_t{1} << 20;

// Not initialised. Throws std::bad_alloc.
void* take_large_block(std::size_t size);

// `size` must be the size that the block was taken with.
void give_large_block(void* block, std::size_t size) noexcept;

// The most bytes that a single large image may leave in a thread's buffers for the next image.
constexpr std::size_t kKeptBytes = std::size_t{1} << 24;

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

    // Gives back memory that is too large to be kept for the next image.
    void shrink() noexcept {
        if (size_ > kKeptBytes) {
            *this = AlignedBuffer();
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

// Memory that an array can be made in, and what keeps it alive.
struct Memory {
    std::shared_ptr<void> owner;
    std::uint8_t* data = nullptr;
    std::size_t size = 0;
    bool pinned = false;  // Its pages stay where they are, for a GPU to copy from and to.
};

// Memory that is used again and again, in blocks of one size. Every caller that takes a block has it to itself, however
// many others are still in use. Taking a block never waits for one to be given back; if all are in use, it makes
// another one.
class Storage {
  public:
    using Allocate = Memory (*)(std::size_t size);

    // Makes the first block, so that the constructor reports a size that cannot be had.
    Storage(std::size_t size, Allocate allocate);

    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] bool pinned() const { return pinned_; }

    // The block is in use as long as any copy of its owner lives. Its content is left over from the last use. A process
    // that was forked after the constructor gets a new block each time.
    Memory take();

  private:
    Memory take_unused(std::vector<Memory>& surplus);

    std::size_t size_;
    Allocate allocate_;
    pid_t process_;
    bool pinned_;
    std::mutex mutex_;
    std::vector<Memory> blocks_;
};

enum class ElementType { kUint8, kUint16, kInt16, kInt32, kInt64, kFloat16, kFloat32, kFloat64 };

// The name of a type in NumPy, the letter of its kind there, and its bytes.
struct ElementKind {
    std::string_view name;
    char letter;
    std::size_t bytes;
};

// In the order of ElementType.
inline constexpr ElementKind kElements[] = {{"uint8", 'u', 1},   {"uint16", 'u', 2}, {"int16", 'i', 2},
                                            {"int32", 'i', 4},   {"int64", 'i', 8},  {"float16", 'f', 2},
                                            {"float32", 'f', 4}, {"float64", 'f', 8}};

constexpr const ElementKind& element_kind(ElementType type) {
    return kElements[static_cast<std::size_t>(type)];
}

constexpr std::size_t element_bytes(ElementType type) {
    return element_kind(type).bytes;
}

constexpr std::optional<ElementType> parse_element(std::string_view name) {
    const auto* const found = std::ranges::find(kElements, name, &ElementKind::name);
    return found == std::end(kElements) ? std::nullopt : std::optional(static_cast<ElementType>(found - kElements));
}

// A C-contiguous array and what keeps its memory alive.
struct Buffer {
    std::shared_ptr<void> owner;
    std::uint8_t* data = nullptr;
    std::vector<std::size_t> shape;
    ElementType type = ElementType::kUint8;
    bool pinned = false;

    [[nodiscard]] std::size_t bytes() const {
        std::size_t size = element_bytes(type);
        for (const std::size_t side : shape) {
            size *= side;
        }
        return size;
    }
};

// Makes an array of this shape at the start of `memory`, which it keeps alive, or as allocate() if that is null. The
// content stays. Throws ArrayError if the array does not fit.
Buffer allocate_in(const Memory* memory, std::vector<std::size_t> shape, ElementType type);

// Makes an array of this shape, not initialised. Throws ArrayError if the machine has less memory than it takes, and
// std::bad_alloc if the system refuses it.
Buffer allocate(std::vector<std::size_t> shape, ElementType type);

// Allocates memory for a Storage in the same way.
Memory allocate_pageable(std::size_t size);

}  // namespace spdl
