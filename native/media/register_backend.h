#pragma once

#include "media/backend.h"

// Registers a backend that some file of the program defines in namespace spdl. Functions that use it stand in that very
// namespace, not in an anonymous one inside.
#define SPDL_REGISTER(backend)        \
    do {                              \
        extern const Backend backend; \
        register_backend(backend);    \
    } while (false)
