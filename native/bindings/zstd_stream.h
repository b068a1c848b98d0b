#pragma once

#include <nanobind/nanobind.h>

namespace spdl {

// zstd for those Pythons whose library has none, before 3.14.
void bind_zstd_stream(nanobind::module_& module);

}  // namespace spdl
