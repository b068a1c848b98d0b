#pragma once

#include <nanobind/nanobind.h>

namespace spdl {

// Single arrays over bytes of the caller's: npy and wav.
void bind_arrays(nanobind::module_& module);

}  // namespace spdl
