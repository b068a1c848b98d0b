#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace spdl {

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

}  // namespace spdl
