#pragma once

#include <atomic>
#include <mutex>
#include <thread>

#include "core/media_error.h"

namespace spdl {

// A lock that tells when the thread that has it asks for it again: a file of Python's, or a signal handler that runs
// while one is read, may use the object that is reading it.
class OwnedMutex {
  public:
    void lock() {
        if (owner_ == std::this_thread::get_id()) {
            throw MediaError("it was used from within the read() or write() of its own file, or by a signal handler");
        }
        mutex_.lock();
        owner_ = std::this_thread::get_id();
    }

    void unlock() {
        owner_ = std::thread::id();
        mutex_.unlock();
    }

  private:
    std::mutex mutex_;
    std::atomic<std::thread::id> owner_;
};

}  // namespace spdl
