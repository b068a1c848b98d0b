#include "bindings/backends.h"

#include "media/backend.h"

// A backend is a file that defines a spdl::Backend, and a line below.
#define SPDL_REGISTER(backend)        \
    do {                              \
        extern const Backend backend; \
        register_backend(backend);    \
    } while (false)

namespace spdl {

void register_backends() {
    // In the order in which they are asked. FFmpeg accepts every input, so it comes last.
    SPDL_REGISTER(libjpeg_turbo_backend);
    SPDL_REGISTER(ffmpeg_backend);
}

}  // namespace spdl
