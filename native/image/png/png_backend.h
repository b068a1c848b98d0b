#pragma once

#include "media/backend.h"

namespace spdl {

// Decodes PNG by libdeflate and filters of our own.
extern const Backend libdeflate_backend;

}  // namespace spdl
