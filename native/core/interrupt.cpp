#include "core/interrupt.h"

#include <utility>

namespace spdl {
namespace {

using Clock = std::chrono::steady_clock;

thread_local bool watches_signals = false;
thread_local Clock::time_point next_look;
thread_local const std::atomic<bool>* shared_end = nullptr;

// Not a std::exception: nobody takes it for a reason. The thread that failed has one.
struct EndedByOthers {};

}  // namespace

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
