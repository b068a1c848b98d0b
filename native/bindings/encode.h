#pragma once

#include <nanobind/nanobind.h>

namespace spdl {

void bind_encode(nanobind::module_& module);

}  // namespace spdl
