#pragma once

#include <nanobind/nanobind.h>

namespace spdl {

// Binds single arrays over the caller's bytes: npy and wav.
void bind_arrays(nanobind::module_& module);

}  // namespace spdl
