#include "core/parallel.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace spdl {
namespace {

class Work {
  public:
    Work(std::size_t begin, std::size_t end, const std::function<void(std::size_t)>& work)
        : next_(begin), end_(end), work_(work) {}

    void run() noexcept {
        try {
            for (;;) {
                const std::size_t index = next_.fetch_add(1, std::memory_order_relaxed);
                if (index >= end_) {
                    return;
                }
                work_(index);
            }
        } catch (...) {
            next_.store(end_, std::memory_order_relaxed);
            const std::scoped_lock lock(mutex_);
            if (!error_) {
                error_ = std::current_exception();
            }
        }
    }

    // Called after all threads have ended.
    void rethrow() const {
        if (error_) {
            std::rethrow_exception(error_);
        }
    }

  private:
    std::atomic<std::size_t> next_;
    std::size_t end_;
    const std::function<void(std::size_t)>& work_;
    std::mutex mutex_;
    std::exception_ptr error_;
};

// Signals go to the threads that Python knows. A new thread inherits the set of blocked signals from the thread that
// starts it.
class BlockedSignals {
  public:
    BlockedSignals() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    BlockedSignals(const BlockedSignals&) = delete;
    BlockedSignals& operator=(const BlockedSignals&) = delete;
    ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  private:
    sigset_t before_{};
};

}  // namespace

void run_parallel(int threads, std::size_t begin, std::size_t end, const std::function<void(std::size_t)>& work) {
    Work shared(begin, end, work);
    if (begin < end) {
        const std::size_t wanted = std::min(static_cast<std::size_t>(threads), end - begin);
        std::vector<std::thread> others;
        others.reserve(wanted);
        if (wanted > 1) {
            const BlockedSignals blocked;
            try {
                while (others.size() + 1 < wanted) {
                    others.emplace_back([&shared] { shared.run(); });
                }
            } catch (const std::system_error&) {
                // The system has no more threads to give, so the existing ones do the work.
            }
        }
        shared.run();
        for (std::thread& other : others) {
            other.join();
        }
    }
    shared.rethrow();
}

}  // namespace spdl
