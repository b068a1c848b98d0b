#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>

#include "core/non_copyable.h"

namespace spdl {

// Calls `work` once for every index from `begin` to before `end`, on this thread and up to `threads` - 1 others. The
// others end before it returns. The first exception ends the work and is thrown here.
void run_parallel(int threads, std::size_t begin, std::size_t end, const std::function<void(std::size_t)>& work);

// Called when a signal has interrupted a system call, and by check_interrupt(). The work goes on unless this throws. A
// program with signal handlers sets it once, at its start.
inline void (*on_interrupt)() = [] {};

// Throws if the work of this thread should end early: because on_interrupt says so, or because another thread that
// shares the work has failed. Work that may take long calls this often, at points at which it can be given up; it costs
// some tens of nanoseconds.
void check_interrupt();

// As long as an object of this class lives, check_interrupt() asks on_interrupt ten times in a second. For the thread
// in which signal handlers run.
class WatchesSignals : NonCopyable {
  public:
    explicit WatchesSignals(bool watches);
    ~WatchesSignals();

    // Returns whether this thread does.
    [[nodiscard]] static bool here();

    static constexpr std::chrono::milliseconds kPeriod{100};

  private:
    bool before_;
};

// As long as an object of this class lives, check_interrupt() ends the work of this thread once `ended` is true.
class EndsWithOthers : NonCopyable {
  public:
    explicit EndsWithOthers(const std::atomic<bool>& ended);
    ~EndsWithOthers();

  private:
    const std::atomic<bool>* before_;
};

}  // namespace spdl
