#pragma once

#include <nanobind/nanobind.h>

namespace spdl {

// Binds archives of arrays over the caller's bytes.
void bind_npz(nanobind::module_& module);

}  // namespace spdl
