#pragma once

#include <nanobind/nanobind.h>

namespace spdl {

// Binds archives of files: their members as views, and the parser for archives that come in a stream.
void bind_tar(nanobind::module_& module);

}  // namespace spdl
