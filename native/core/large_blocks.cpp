#include "core/large_blocks.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <mutex>
#include <new>
#include <utility>

namespace spdl {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

// How much is kept for the next caller that asks for the same size: a few batches on their way, but never more than
// this, whatever their size.
constexpr std::size_t kKeptBytes = std::size_t{64} << 20;
constexpr std::size_t kKeptBlocks = 4;

// A block that nobody has asked for while so many others were freed is given back to the system.
constexpr std::uint64_t kPatience = 64;

struct Block {
    void* memory = nullptr;
    std::size_t size = 0;
    std::uint64_t freed = 0;  // When it was, counted in blocks.
};

using Leaving = std::array<Block, kKeptBlocks + 1>;

std::size_t round_up(std::size_t size) {
    return (size + kHugePage - 1) / kHugePage * kHugePage;
}

class Kept {
  public:
    void* take(std::size_t size) {
        // This does not wait for the lock: in a forked child nobody might ever unlock it.
        const std::unique_lock lock(mutex_, std::try_to_lock);
        if (lock) {
            for (Block& block : blocks_) {
                if (block.size == size) {
                    bytes_ -= size;
                    void* const memory = block.memory;
                    block = {};
                    return memory;
                }
            }
        }
        return nullptr;
    }

    // Keeps the block if there is room for it, and returns what the caller has to unmap. Blocks of other sizes make
    // room, and do not stay for long: nobody may ask for those again.
    Leaving give(Block given) {
        Leaving leaving{given};
        const std::unique_lock lock(mutex_, std::try_to_lock);
        if (!lock || given.size > kKeptBytes) {
            return leaving;
        }
        given.freed = ++freed_;
        Block* place = room_for(given.size);
        std::size_t left = 1;
        for (Block& other : blocks_) {
            const bool leaves = place == nullptr || freed_ - other.freed > kPatience;
            if (leaves && other.memory != nullptr && other.size != given.size) {
                bytes_ -= other.size;
                leaving[left++] = std::exchange(other, {});
                place = room_for(given.size);
            }
        }
        if (place != nullptr) {
            bytes_ += given.size;
            *place = given;
            leaving[0] = {};
        }
        return leaving;
    }

  private:
    // Returns an empty place if a block of this size may be kept as well, or null.
    Block* room_for(std::size_t size) {
        Block* const place = std::ranges::find(blocks_, nullptr, &Block::memory);
        return place != blocks_.end() && bytes_ + size <= kKeptBytes ? place : nullptr;
    }

    std::mutex mutex_;
    std::array<Block, kKeptBlocks> blocks_{};
    std::size_t bytes_ = 0;
    std::uint64_t freed_ = 0;
};

// Never destroyed: threads that outlive the process's static objects may free blocks.
Kept& kept() {
    static Kept* const instance = new Kept;
    return *instance;
}

void* map(std::size_t size) {
    void* const raw = mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) {
        throw std::bad_alloc();
    }
    auto* const start = static_cast<std::uint8_t*>(raw);
    const std::size_t before = (kHugePage - reinterpret_cast<std::uintptr_t>(start) % kHugePage) % kHugePage;
    if (before > 0) {
        munmap(start, before);
    }
    munmap(start + before + size, kHugePage - before);
#ifdef MADV_HUGEPAGE
    // This is only advice: everything works without huge pages, too.
    madvise(start + before, size, MADV_HUGEPAGE);
#endif
    return start + before;
}

}  // namespace

void* take_large_block(std::size_t size) {
    if (size > SIZE_MAX - 2 * kHugePage) {
        throw std::bad_alloc();
    }
    const std::size_t rounded = round_up(size);
    void* const memory = kept().take(rounded);
    return memory != nullptr ? memory : map(rounded);
}

void give_large_block(void* block, std::size_t size) noexcept {
    for (const Block& leaving : kept().give({block, round_up(size)})) {
        if (leaving.memory != nullptr) {
            munmap(leaving.memory, leaving.size);
        }
    }
}

}  // namespace spdl
