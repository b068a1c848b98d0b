#include "core/parallel.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace spdl {
namespace {

class Work {
  public:
    Work(std::size_t begin, std::size_t end, const std::function<void(std::size_t)>& work)
        : next_(begin), end_(end), work_(work) {}

    void run() noexcept {
        const EndsWithOthers ends(failed_);
        try {
            for (;;) {
                const std::size_t index = next_.fetch_add(1, std::memory_order_relaxed);
                if (index >= end_) {
                    return;
                }
                check_interrupt();
                work_(index);
            }
        } catch (...) {
            fail(std::current_exception());
        }
    }

    // Runs in a separate thread.
    void run_beside() noexcept {
        run();
        const std::scoped_lock lock(mutex_);
        if (--beside_ == 0) {
            all_ended_.notify_one();
        }
    }

    void expect_beside() {
        const std::scoped_lock lock(mutex_);
        ++beside_;
    }

    void no_more_beside() {
        const std::scoped_lock lock(mutex_);
        --beside_;
    }

    // Waits for the other threads. A signal handler that runs in the meantime may end their work.
    void wait() noexcept {
        std::unique_lock lock(mutex_);
        while (!all_ended_.wait_for(lock, WatchesSignals::kPeriod, [this] { return beside_ == 0; })) {
            lock.unlock();
            try {
                check_interrupt();
            } catch (...) {
                fail(std::current_exception());
            }
            lock.lock();
        }
    }

    // Called after all threads have ended.
    void rethrow() {
        if (error_) {
            std::rethrow_exception(std::exchange(error_, nullptr));
        }
    }

  private:
    void fail(std::exception_ptr error) noexcept {
        next_.store(end_, std::memory_order_relaxed);
        const std::scoped_lock lock(mutex_);
        if (!error_) {
            error_ = std::move(error);
        }
        // Last: what others throw because of it is no reason.
        failed_.store(true, std::memory_order_relaxed);
    }

    std::atomic<std::size_t> next_;
    std::size_t end_;
    const std::function<void(std::size_t)>& work_;
    std::mutex mutex_;
    std::condition_variable all_ended_;
    int beside_ = 0;
    std::exception_ptr error_;
    std::atomic<bool> failed_ = false;
};

// Signals go to the threads that Python knows. A new thread inherits the set of blocked signals from the thread that
// starts it.
class BlockedSignals : NonCopyable {
  public:
    BlockedSignals() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  private:
    sigset_t before_{};
};

using Clock = std::chrono::steady_clock;

thread_local bool watches_signals = false;
thread_local Clock::time_point next_look;
thread_local const std::atomic<bool>* shared_end = nullptr;

// Not a std::exception, so that it is not taken for a reason. The thread that failed has one.
struct EndedByOthers {};

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
                    shared.expect_beside();
                    others.emplace_back([&shared] { shared.run_beside(); });
                }
            } catch (const std::system_error&) {
                // The system has no more threads to give, so the existing ones do the work.
                shared.no_more_beside();
            }
        }
        shared.run();
        if (!others.empty() && WatchesSignals::here()) {
            shared.wait();
        }
        for (std::thread& other : others) {
            other.join();
        }
    }
    shared.rethrow();
}

void check_interrupt() {
    if (shared_end != nullptr && shared_end->load(std::memory_order_relaxed)) {
        throw EndedByOthers();
    }
    if (watches_signals) {
        if (const Clock::time_point now = Clock::now(); now >= next_look) {
            next_look = now + WatchesSignals::kPeriod;
            on_interrupt();
        }
    }
}

WatchesSignals::WatchesSignals(bool watches) : before_(std::exchange(watches_signals, watches)) {
    // A call that is over soon need not look at all.
    if (watches) {
        next_look = Clock::now() + kPeriod;
    }
}

WatchesSignals::~WatchesSignals() {
    watches_signals = before_;
}

bool WatchesSignals::here() {
    return watches_signals;
}

EndsWithOthers::EndsWithOthers(const std::atomic<bool>& ended) : before_(std::exchange(shared_end, &ended)) {}

EndsWithOthers::~EndsWithOthers() {
    shared_end = before_;
}

}  // namespace spdl
