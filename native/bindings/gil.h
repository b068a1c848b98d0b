#pragma once

#include <Python.h>

#include <cstddef>

namespace spdl {

// It costs less to return fewer bytes than this to the system than to hand over the GIL.
inline constexpr std::size_t kLargeBytes = 1 << 20;

// Releases the GIL for its lifetime. If a daemon thread asks for it back while the interpreter shuts down, it sleeps,
// as ended_threads.cpp explains.
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
