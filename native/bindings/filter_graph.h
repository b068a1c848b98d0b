#pragma once

#include <nanobind/nanobind.h>

namespace spdl {

void bind_filter_graph(nanobind::module_& module);

}  // namespace spdl
