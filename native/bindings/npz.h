#pragma once

#include <nanobind/nanobind.h>

namespace spdl {

// Archives of arrays over bytes of the caller's.
void bind_npz(nanobind::module_& module);

}  // namespace spdl
