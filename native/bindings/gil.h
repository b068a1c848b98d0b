#pragma once

#include <Python.h>

#include <cstddef>

namespace spdl {

// Returning less than this to the system costs less than handing over the GIL.
inline constexpr std::size_t kLargeBytes = 1 << 20;

// Releases the GIL for its lifetime. A daemon thread that asks for it back while the interpreter shuts down gets no
// further than ended_threads.cpp says.
class ReleasedGil {
  public:
    ReleasedGil() : state_(PyEval_SaveThread()) {}
    ReleasedGil(const ReleasedGil&) = delete;
    ReleasedGil& operator=(const ReleasedGil&) = delete;
    ~ReleasedGil() { PyEval_RestoreThread(state_); }

  private:
    PyThreadState* state_;
};

}  // namespace spdl
