#pragma once

#include <nanobind/nanobind.h>

namespace spdl {

void bind_batch(nanobind::module_& module);

}  // namespace spdl
