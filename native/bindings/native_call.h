#pragma once

#include <Python.h>
#include <nanobind/nanobind.h>

#include <cstdint>

#include "core/parallel.h"
#include "core/trace.h"
#include "ffmpeg/ffmpeg_log.h"

namespace spdl {

// Hands the waiting lines of FFmpeg's log to Python's logging. Wants the GIL.
void deliver_log_lines_now() noexcept;

inline void deliver_log_lines() noexcept {
    if (log_lines_wait.load(std::memory_order_relaxed)) {
        deliver_log_lines_now();
    }
}

// Returns whether Python runs signal handlers in this thread, which it does in the process's first.
bool runs_signal_handlers();

void bind_trace(nanobind::module_& module);

// Gives this thread its name in Python, if a trace is on that does not know it yet. Wants the GIL.
void name_this_thread() noexcept;

// The part of a Python call that works without the GIL. It is a span of the trace, if one is on, and so is the time
// that it then waits for the GIL. What FFmpeg has logged in the meantime goes to Python's logging. On the main thread,
// work that calls check_interrupt() ends on Ctrl-C. Not for finalisers, which may run in the middle of anything: these
// use ReleasedGil.
class NativeCall {
  public:
    explicit NativeCall(const char* name)
        : watches_(runs_signal_handlers()), span_(trace::is_on() ? begin_span(name) : 0), state_(PyEval_SaveThread()) {}
    NativeCall(const NativeCall&) = delete;
    NativeCall& operator=(const NativeCall&) = delete;
    ~NativeCall() {
        if (span_ == 0) {
            PyEval_RestoreThread(state_);
        } else {
            trace::end(span_);
            const trace::Span waiting("wait for the GIL");
            PyEval_RestoreThread(state_);
        }
        deliver_log_lines();
    }

  private:
    static std::uint64_t begin_span(const char* name) {
        name_this_thread();
        return trace::begin(name);
    }

    WatchesSignals watches_;
    std::uint64_t span_;
    PyThreadState* state_;
};

}  // namespace spdl
