#pragma once

#include <nanobind/nanobind.h>

namespace spdl {

void bind_ffmpeg(nanobind::module_& module);

}  // namespace spdl
