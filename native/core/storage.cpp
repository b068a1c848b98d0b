#include "core/storage.h"

#include <unistd.h>

#include <atomic>
#include <utility>

namespace spdl {
namespace {

// How many unused blocks are kept for later: more than a loader with a dozen threads leaves between two of its batches.
// Beyond that number lie blocks that a program once held together, such as a list of all its batches.
constexpr std::size_t kKeptBlocks = 16;

}  // namespace

Storage::Storage(std::size_t size, Allocate allocate)
    : size_(size), allocate_(allocate), process_(getpid()), blocks_{allocate(size)} {
    pinned_ = blocks_.front().pinned;
}

Memory Storage::take() {
    if (getpid() != process_) {
        // In a forked child, pinned memory still belongs to the parent, and nobody may ever unlock the lock.
        return allocate_(size_);
    }
    // Blocks are dropped without the lock, as they are made: it takes long to return memory to the system.
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

}  // namespace spdl
