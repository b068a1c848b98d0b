#include "image/load/thread_scratch.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace spdl {
namespace {

// The scratch of threads that have ended, for threads that begin. Some threads live for one batch only.
class ScratchPool {
  public:
    std::unique_ptr<ThreadScratch> take() {
        // This does not wait for the lock: in a forked child nobody might ever unlock it.
        const std::unique_lock lock(mutex_, std::try_to_lock);
        if (!lock || left_.empty()) {
            return std::make_unique<ThreadScratch>();
        }
        std::unique_ptr<ThreadScratch> scratch = std::move(left_.back());
        left_.pop_back();
        return scratch;
    }

    void leave(std::unique_ptr<ThreadScratch> scratch) noexcept {
        const std::unique_lock lock(mutex_, std::try_to_lock);
        if (lock && left_.size() < left_.capacity()) {
            left_.push_back(std::move(scratch));
        }
    }

    ScratchPool() { left_.reserve(std::max(std::thread::hardware_concurrency(), 1U)); }

  private:
    std::mutex mutex_;
    std::vector<std::unique_ptr<ThreadScratch>> left_;
};

// Never destroyed: threads may outlive the process's static objects.
ScratchPool& scratch_pool() {
    static ScratchPool* const pool = new ScratchPool;
    return *pool;
}

class BorrowedScratch {
  public:
    BorrowedScratch() : scratch_(scratch_pool().take()) {}
    BorrowedScratch(const BorrowedScratch&) = delete;
    BorrowedScratch& operator=(const BorrowedScratch&) = delete;
    ~BorrowedScratch() { scratch_pool().leave(std::move(scratch_)); }

    [[nodiscard]] ThreadScratch& get() const { return *scratch_; }

  private:
    std::unique_ptr<ThreadScratch> scratch_;
};

}  // namespace

ThreadScratch& thread_scratch() {
    thread_local const BorrowedScratch scratch;
    return scratch.get();
}

}  // namespace spdl
