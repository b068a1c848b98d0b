#pragma once

#include <Python.h>

#include <cstdint>

#include "bindings/log_delivery.h"
#include "bindings/main_thread.h"
#include "bindings/trace.h"
#include "core/interrupt.h"
#include "core/trace.h"

namespace spdl {

// The part of a Python call that works without the GIL. It is a span of the trace, if one is on, and so is the time
// that it then waits for the GIL. What FFmpeg has logged meanwhile goes to Python's logging. On the main thread, work
// that calls check_interrupt() ends on Ctrl-C. Not for finalisers, which may run in the middle of anything: these use
// ReleasedGil.
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
