#pragma once

#include <nanobind/nanobind.h>

namespace spdl {

void bind_gpu_video(nanobind::module_& module);

}  // namespace spdl
