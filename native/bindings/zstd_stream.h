#pragma once

#include <nanobind/nanobind.h>

namespace spdl {

// Binds zstd for Pythons whose library has none, before 3.14.
void bind_zstd_stream(nanobind::module_& module);

}  // namespace spdl
