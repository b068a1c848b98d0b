#include "core/buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <utility>

#include "core/errors.h"

namespace spdl {
namespace {

constexpr std::size_t kPage = std::size_t{4} << 10;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

// The limits for batches: a few on their way, but never more than that many bytes, whatever their size. And the limits
// for smaller blocks, such as the frames of a clip that are converted one by one.
constexpr std::size_t kKeptBatches = 4;
constexpr std::size_t kKeptBatchBytes = std::size_t{64} << 20;
constexpr std::size_t kKeptSmallBytes = std::size_t{8} << 20;

// A block that was not asked for while so much was freed is given back to the system.
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
        // This does not wait for the lock: in a forked child it might never be unlocked.
        const std::unique_lock lock(mutex_, std::try_to_lock);
        if (!lock) {
            return nullptr;
        }
        // The block freed last may still be in the cache.
        const auto found =
            std::find_if(blocks_.rbegin(), blocks_.rend(), [&](const Block& it) { return it.size == size; });
        return found == blocks_.rend() ? nullptr : remove(found.base() - 1).memory;
    }

    // Keeps the block if there is room for it, and returns one that the caller has to unmap instead, or one that was
    // kept for too long. If that is empty, nothing is left to do; otherwise this is called again. Blocks of other sizes
    // of its kind make room: they may never be asked for again.
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
    require_memory(memory != MAP_FAILED);
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

// How many unused blocks are kept for later: more than a loader with a dozen threads leaves between two of its batches.
// Beyond that number lie blocks that a program once held together, such as a list of all its batches.
constexpr std::size_t kKeptBlocks = 16;

// Linux promises more memory than it has. It is better to refuse a size that cannot fit than to be killed for it.
std::size_t physical_memory() {
    static const std::size_t bytes =
        static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(::sysconf(_SC_PAGE_SIZE));
    return bytes;
}

std::string describe(const std::vector<std::size_t>& shape) {
    std::string text = "(";
    for (const std::size_t side : shape) {
        text += (text.size() > 1 ? ", " : "") + std::to_string(side);
    }
    return text + ")";
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

Storage::Storage(std::size_t size, Allocate allocate)
    : size_(size), allocate_(allocate), process_(getpid()), blocks_{allocate(size)} {
    pinned_ = blocks_.front().pinned;
}

Memory Storage::take() {
    if (getpid() != process_) {
        // In a forked child, pinned memory still belongs to the parent, and the lock may never be unlocked.
        return allocate_(size_);
    }
    // Blocks are dropped, as they are made, without the lock: it takes long to return memory to the system.
    std::vector<Memory> surplus;
    Memory unused = take_unused(surplus);
    if (unused.owner) {
        return unused;
    }
    Memory block = allocate_(size_);
    const std::scoped_lock lock(mutex_);
    blocks_.push_back(block);
    return block;
}

Memory Storage::take_unused(std::vector<Memory>& surplus) {
    const std::scoped_lock lock(mutex_);
    Memory taken;
    std::size_t unused = 0;
    std::erase_if(blocks_, [&](Memory& block) {
        // Only this function makes a second owner of a block with one owner, so no other thread can come in between.
        if (block.owner.use_count() > 1) {
            return false;
        }
        if (!taken.owner) {
            taken = block;
            return false;
        }
        if (++unused <= kKeptBlocks) {
            return false;
        }
        surplus.push_back(std::move(block));
        return true;
    });
    // Everything that the last owner did with a block comes before anything that the next owner does.
    std::atomic_thread_fence(std::memory_order_acquire);
    return taken;
}

Buffer allocate(std::vector<std::size_t> shape, ElementType type) {
    std::size_t bytes = element_bytes(type);
    for (const std::size_t side : shape) {
        if (__builtin_mul_overflow(bytes, side, &bytes) || bytes > physical_memory()) {
            throw ArrayError("an array of shape " + describe(shape) + " does not fit this machine's memory of " +
                             std::to_string(physical_memory()) + " bytes: ask for fewer or smaller ones");
        }
    }
    auto memory = std::make_shared<AlignedBuffer>(bytes);
    std::uint8_t* const data = memory->data();
    return {std::move(memory), data, std::move(shape), type};
}

Buffer allocate_in(const Memory* memory, std::vector<std::size_t> shape, ElementType type) {
    if (memory == nullptr) {
        return allocate(std::move(shape), type);
    }
    std::size_t bytes = element_bytes(type);
    for (const std::size_t side : shape) {
        if (__builtin_mul_overflow(bytes, side, &bytes)) {
            throw ArrayError("an array of shape " + describe(shape) + " fits into no memory: ask for fewer or smaller");
        }
    }
    Buffer buffer{memory->owner, memory->data, std::move(shape), type, memory->pinned};
    if (buffer.bytes() > memory->size) {
        throw ArrayError("the storage of " + std::to_string(memory->size) + " bytes is too small for the " +
                         std::to_string(buffer.bytes()) + " of an array of shape " + describe(buffer.shape) +
                         ": make one of at least " + std::to_string(buffer.bytes()) + " bytes");
    }
    if (reinterpret_cast<std::uintptr_t>(memory->data) % element_bytes(type) != 0) {
        throw ArrayError("the storage starts at an address that is not a multiple of the " +
                         std::to_string(element_bytes(type)) + " bytes of an element: start it a few bytes further on");
    }
    return buffer;
}

Memory allocate_pageable(std::size_t size) {
    Buffer buffer = allocate({size}, ElementType::kUint8);
    return {std::move(buffer.owner), buffer.data, size};
}

}  // namespace spdl
