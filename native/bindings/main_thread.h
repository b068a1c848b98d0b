#pragma once

namespace spdl {

// Returns whether Python runs signal handlers in this thread, which it does in the process's first.
bool runs_signal_handlers();

}  // namespace spdl
