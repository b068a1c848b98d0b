#pragma once

#include <optional>

#include "bindings/gil.h"
#include "bindings/log_delivery.h"
#include "bindings/trace.h"
#include "core/trace.h"

namespace spdl {

// The part of a Python call that works without the GIL. It is a span of the trace, if one is on, and so is the time
// that it then waits for the GIL. What FFmpeg has logged meanwhile goes to Python's logging. Not for finalisers, which
// may run in the middle of anything: these use ReleasedGil.
class NativeCall {
  public:
    explicit NativeCall(const char* name) {
        if (trace::is_on()) {
            begin_span(name);
        }
        released_.emplace();
    }
    NativeCall(const NativeCall&) = delete;
    NativeCall& operator=(const NativeCall&) = delete;
    ~NativeCall() {
        if (span_ == 0) {
            released_.reset();
        } else {
            trace::end(span_);
            const trace::Span waiting("wait for the GIL");
            released_.reset();
        }
        deliver_log_lines();
    }

  private:
    void begin_span(const char* name) {
        name_this_thread();
        span_ = trace::begin(name);
    }

    std::uint64_t span_ = 0;
    std::optional<ReleasedGil> released_;
};

}  // namespace spdl
