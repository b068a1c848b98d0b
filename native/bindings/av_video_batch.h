#pragma once

#include <nanobind/nanobind.h>

namespace spdl {

void bind_av_video_batch(nanobind::module_& module);

}  // namespace spdl
