#pragma once

#include <nanobind/nanobind.h>

namespace spdl {

void bind_av_frames(nanobind::module_& module);

}  // namespace spdl
