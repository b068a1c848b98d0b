#pragma once

namespace spdl {

// Called when a signal has interrupted a system call. The call is made again unless this throws. A program with signal
// handlers of its own sets it once, at its start.
inline void (*on_interrupt)() = [] {};

}  // namespace spdl
