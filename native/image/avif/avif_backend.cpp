#include <memory>

#include "image/avif/avif_decoder.h"
#include "media/backend.h"

namespace spdl {

extern const Backend libavif_backend;
const Backend libavif_backend{"libavif", "decodes AVIF only, without FFmpeg's options",
                              []() -> std::unique_ptr<Decoder> { return std::make_unique<AvifDecoder>(); }};

}  // namespace spdl
