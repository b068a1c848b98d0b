#include "core/large_blocks.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace spdl {
namespace {

constexpr std::size_t kPage = std::size_t{4} << 10;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

// What is kept of batches: a few on their way, but never more than so many bytes, whatever their size. And what is kept
// of smaller blocks, such as the frames of a clip that are converted one by one.
constexpr std::size_t kKeptBatches = 4;
constexpr std::size_t kKeptBatchBytes = std::size_t{64} << 20;
constexpr std::size_t kKeptSmallBytes = std::size_t{8} << 20;

// A block that nobody has asked for while so much was freed is given back to the system.
constexpr std::uint64_t kPatience = std::uint64_t{256} << 20;

struct Block {
    void* memory = nullptr;
    std::size_t size = 0;
    std::uint64_t freed = 0;  // When it was, counted in freed bytes.
};

std::size_t round_up(std::size_t size) {
    const std::size_t page = size < kLargeBlock ? kPage : kHugePage;
    return (size + page - 1) / page * page;
}

bool is_small(std::size_t size) {
    return size < kLargeBlock;
}

class Kept {
  public:
    Kept() { blocks_.reserve(kKeptBatches + kKeptSmallBytes / kSmallestBlock); }

    void* take(std::size_t size) {
        // This does not wait for the lock: in a forked child nobody might ever unlock it.
        const std::unique_lock lock(mutex_, std::try_to_lock);
        if (!lock) {
            return nullptr;
        }
        // What was freed last may still be in the cache.
        const auto found =
            std::find_if(blocks_.rbegin(), blocks_.rend(), [&](const Block& it) { return it.size == size; });
        return found == blocks_.rend() ? nullptr : remove(found.base() - 1).memory;
    }

    // Keeps the block if there is room for it, and returns one that the caller has to unmap instead, or one that was
    // kept for too long. Nothing is left to do if that is none; otherwise this is called again. Blocks of other sizes
    // of its kind make room: nobody may ask for those again.
    Block give(Block& given) {
        const std::unique_lock lock(mutex_, std::try_to_lock);
        if (!lock || given.size > kKeptBatchBytes) {
            return std::exchange(given, {});
        }
        if (given.memory != nullptr && has_room(given.size)) {
            freed_ += given.size;
            given.freed = freed_;
            blocks_.push_back(std::exchange(given, {}));
        }
        const auto leaves = std::ranges::find_if(blocks_, [&](const Block& it) {
            return given.memory != nullptr ? it.size != given.size && is_small(it.size) == is_small(given.size)
                                           : freed_ - it.freed > kPatience;
        });
        return leaves == blocks_.end() ? std::exchange(given, {}) : remove(leaves);
    }

  private:
    [[nodiscard]] bool has_room(std::size_t size) const {
        const bool small = is_small(size);
        std::size_t count = 1;
        std::size_t bytes = size;
        for (const Block& block : blocks_) {
            if (is_small(block.size) == small) {
                ++count;
                bytes += block.size;
            }
        }
        return small ? bytes <= kKeptSmallBytes : count <= kKeptBatches && bytes <= kKeptBatchBytes;
    }

    Block remove(std::vector<Block>::iterator place) {
        const Block block = *place;
        blocks_.erase(place);
        return block;
    }

    std::mutex mutex_;
    std::vector<Block> blocks_;  // In the order in which they were freed.
    std::uint64_t freed_ = 0;
};

// Never destroyed: threads that outlive the process's static objects may free blocks.
Kept& kept() {
    static Kept* const instance = new Kept;
    return *instance;
}

void* map_pages(std::size_t size) {
    void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        throw std::bad_alloc();
    }
    return memory;
}

void* map_huge_pages(std::size_t size) {
    auto* const start = static_cast<std::uint8_t*>(map_pages(size + kHugePage));
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
    if (void* const memory = kept().take(rounded)) {
        return memory;
    }
    return size < kLargeBlock ? map_pages(rounded) : map_huge_pages(rounded);
}

void give_large_block(void* block, std::size_t size) noexcept {
    Block given{block, round_up(size)};
    for (;;) {
        const Block leaving = kept().give(given);
        if (leaving.memory == nullptr) {
            return;
        }
        munmap(leaving.memory, leaving.size);
    }
}

}  // namespace spdl
