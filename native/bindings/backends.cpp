#include "media/decoder.h"

namespace spdl {

void register_backends() {
    // A line for each, in the order in which they are asked.
    SPDL_REGISTER(libjpeg_turbo_backend);
    SPDL_REGISTER(libdeflate_backend);
    SPDL_REGISTER(libtiff_backend);
    SPDL_REGISTER(libwebp_backend);
    SPDL_REGISTER(libavif_backend);
    SPDL_REGISTER(gif_backend);
    SPDL_REGISTER(bmp_backend);
    SPDL_REGISTER(qoi_backend);
    SPDL_REGISTER(pnm_backend);
    SPDL_REGISTER(openjpeg_backend);
    SPDL_REGISTER(heif_backend);
    SPDL_REGISTER(ffmpeg_backend);
}

}  // namespace spdl
