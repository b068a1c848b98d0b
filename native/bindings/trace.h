#pragma once

#include <nanobind/nanobind.h>

namespace spdl {

void bind_trace(nanobind::module_& module);

// Gives this thread its name in Python, if a trace is on that does not know it yet. Wants the GIL.
void name_this_thread() noexcept;

}  // namespace spdl
