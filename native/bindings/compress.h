#pragma once

#include <nanobind/nanobind.h>

namespace spdl {

// Binds compression and checksums of the members of archives that are written.
void bind_compress(nanobind::module_& module);

}  // namespace spdl
