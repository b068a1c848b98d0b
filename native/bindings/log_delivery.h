#pragma once

#include "ffmpeg/log_lines.h"

namespace spdl {

// Hands the waiting lines of FFmpeg's log to Python's logging. Wants the GIL.
void deliver_log_lines_now() noexcept;

inline void deliver_log_lines() noexcept {
    if (log_lines_wait.load(std::memory_order_relaxed)) {
        deliver_log_lines_now();
    }
}

}  // namespace spdl
