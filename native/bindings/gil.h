#pragma once

#include <Python.h>
#include <unistd.h>

#include <cstddef>

namespace spdl {

// Returning less than this to the system costs less than handing over the GIL.
inline constexpr std::size_t kLargeBytes = 1 << 20;

// Releases the GIL for its lifetime.
//
// A daemon thread that asks for the GIL back while the interpreter shuts down is ended by CPython before 3.14 with
// pthread_exit, whose unwinding no C++ destructor survives: the process would abort. Such a thread is caught and sleeps
// until the process ends, which is what CPython 3.14 does.
class ReleasedGil {
  public:
    ReleasedGil() : state_(PyEval_SaveThread()) {}
    ReleasedGil(const ReleasedGil&) = delete;
    ReleasedGil& operator=(const ReleasedGil&) = delete;
    ~ReleasedGil() {
        try {
            PyEval_RestoreThread(state_);
        } catch (...) {
            for (;;) {
                ::pause();
            }
        }
    }

  private:
    PyThreadState* state_;
};

}  // namespace spdl
