#pragma once

#include "core/format_error.h"

namespace spdl {

// Sets the Python exception that stands for this one. Called with the GIL held.
void set_format_error(const FormatError& error);

}  // namespace spdl
