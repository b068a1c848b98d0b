#include "bindings/main_thread.h"

#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__APPLE__)
#include <pthread.h>
#endif

namespace spdl {

bool runs_signal_handlers() {
#ifdef __linux__
    // The child of a fork has one thread, which is its first. Python calls it the main thread, too.
    static thread_local pid_t process = 0;
    static thread_local bool first = false;
    if (const pid_t now = ::getpid(); now != process) {
        process = now;
        first = ::syscall(SYS_gettid) == now;
    }
    return first;
#elif defined(__APPLE__)
    return pthread_main_np() != 0;
#else
    return false;
#endif
}

}  // namespace spdl
