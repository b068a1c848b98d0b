#pragma once

#include <nanobind/nanobind.h>

namespace spdl {

// Archives of files: their members as views, and the parser for those that come in a stream.
void bind_tar(nanobind::module_& module);

}  // namespace spdl
