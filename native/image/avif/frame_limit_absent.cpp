// Replaces frame_limit.cpp if libavif is the system's, which calls dav1d without us.

#include "image/avif/avif_decoder.h"

namespace spdl {

bool were_frames_refused() noexcept {
    return false;
}

}  // namespace spdl
