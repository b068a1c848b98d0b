#include <memory>

#include "image/webp/webp_decoder.h"
#include "media/backend.h"

namespace spdl {

extern const Backend libwebp_backend;
const Backend libwebp_backend{"libwebp", "decodes WebP only, without FFmpeg's options",
                              []() -> std::unique_ptr<Decoder> { return std::make_unique<WebpDecoder>(); }};

}  // namespace spdl
