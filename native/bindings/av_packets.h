#pragma once

#include <nanobind/nanobind.h>

namespace spdl {

void bind_av_packets(nanobind::module_& module);

}  // namespace spdl
