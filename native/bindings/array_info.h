#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <string>
#include <vector>

#include "core/buffer.h"

namespace spdl {

// Return the name of an element type in NumPy, in the array interfaces, and in DLPack.
const char* dtype_name(ElementType type);
std::string type_string(ElementType type);
nanobind::dlpack::dtype dlpack_type(ElementType type);

nanobind::tuple shape_tuple(const std::vector<std::size_t>& shape);

}  // namespace spdl
