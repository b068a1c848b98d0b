#include <memory>

#include "image/jpeg2000/jpeg2000_decoder.h"
#include "media/backend.h"

namespace spdl {

extern const Backend openjpeg_backend;
const Backend openjpeg_backend{"openjpeg", "decodes JPEG 2000 only, without FFmpeg's options",
                               []() -> std::unique_ptr<Decoder> { return std::make_unique<Jpeg2000Decoder>(); }};

}  // namespace spdl
