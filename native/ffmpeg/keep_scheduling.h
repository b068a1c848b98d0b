#pragma once

#ifdef __linux__
#include <pthread.h>
#include <sched.h>
#endif

namespace spdl {

// Gives the thread back the scheduling policy and the priority that it had. SVT-AV1 makes the thread that opens it a
// real-time one, if it may, and leaves it so: everything that the thread does from then on would go before all others.
class KeepScheduling {
  public:
#ifdef __linux__
    // Asks the system: pthread_getschedparam remembers, and does not see what others have set since.
    KeepScheduling() : policy_(sched_getscheduler(0)) { sched_getparam(0, &parameters_); }
    KeepScheduling(const KeepScheduling&) = delete;
    KeepScheduling& operator=(const KeepScheduling&) = delete;
    ~KeepScheduling() {
        sched_param now{};
        sched_getparam(0, &now);
        if (policy_ >= 0 && (sched_getscheduler(0) != policy_ || now.sched_priority != parameters_.sched_priority)) {
            // This also sets what pthread_getschedparam remembers.
            pthread_setschedparam(pthread_self(), policy_, &parameters_);
        }
    }

  private:
    int policy_;
    sched_param parameters_{};
#endif
};

}  // namespace spdl
