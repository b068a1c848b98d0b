#pragma once

#include <nanobind/nanobind.h>

namespace spdl {

void bind_av_video_reader(nanobind::module_& module);

}  // namespace spdl
