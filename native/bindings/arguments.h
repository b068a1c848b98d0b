#pragma once

#include <nanobind/nanobind.h>

namespace spdl {

// The classes in which Python hands over what it has validated: DemuxOptions, DecodeOptions and Resize.
void bind_options(nanobind::module_& module);

}  // namespace spdl
