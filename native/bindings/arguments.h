#pragma once

#include <nanobind/nanobind.h>

namespace spdl {

// The classes in which Python hands over what it has validated: LoadOptions, RandomCrop, DemuxOptions and
// DecodeOptions.
void bind_options(nanobind::module_& module);

}  // namespace spdl
