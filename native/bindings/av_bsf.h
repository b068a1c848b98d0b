#pragma once

#include <nanobind/nanobind.h>

namespace spdl {

void bind_av_bsf(nanobind::module_& module);

}  // namespace spdl
