#pragma once

#include <nanobind/nanobind.h>

namespace spdl {

// Binds the classes in which Python passes checked options: LoadOptions (as Request), RandomCrop, DemuxOptions and
// DecodeOptions.
void bind_options(nanobind::module_& module);

}  // namespace spdl
