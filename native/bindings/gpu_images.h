#pragma once

#include <nanobind/nanobind.h>

namespace spdl {

void bind_gpu_images(nanobind::module_& module);

}  // namespace spdl
