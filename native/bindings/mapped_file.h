#pragma once

#include <nanobind/nanobind.h>

namespace spdl {

// Binds files as objects with the buffer protocol.
void bind_mapped_file(nanobind::module_& module);

}  // namespace spdl
