#pragma once

#include <nanobind/nanobind.h>

namespace spdl {

void bind_cuda(nanobind::module_& module);

}  // namespace spdl
