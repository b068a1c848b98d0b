#pragma once

#include <nanobind/nanobind.h>

namespace spdl {

void bind_av_reference_frames(nanobind::module_& module);

}  // namespace spdl
