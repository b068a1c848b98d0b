#include "core/storage.h"

#include <unistd.h>

#include <atomic>
#include <utility>

namespace spdl {
namespace {

// How many unused blocks stay for later: more than a loader with a dozen threads leaves between two of its batches.
// Beyond it lies what a program once held together, a list of all its batches, say.
constexpr std::size_t kKeptBlocks = 16;

}  // namespace

Storage::Storage(std::size_t size, Allocate allocate)
    : size_(size), allocate_(allocate), process_(getpid()), blocks_{allocate(size)} {
    pinned_ = blocks_.front().pinned;
}

Memory Storage::take() {
    if (getpid() != process_) {
        // In a forked child pinned memory is still the parent's, and the lock may be one that nobody ever unlocks.
        return allocate_(size_);
    }
    // Dropped, as blocks are made, without the lock: returning memory to the system takes long.
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
        // Only this function makes a second owner of what has one, so nobody can come in between.
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
    // What the last owner did with a block comes before what the next one does.
    std::atomic_thread_fence(std::memory_order_acquire);
    return taken;
}

}  // namespace spdl
