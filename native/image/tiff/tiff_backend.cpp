#include <memory>

#include "image/tiff/tiff_decoder.h"
#include "media/backend.h"

namespace spdl {

extern const Backend libtiff_backend;
const Backend libtiff_backend{"libtiff", "decodes TIFF only, without FFmpeg's options",
                              []() -> std::unique_ptr<Decoder> { return std::make_unique<TiffDecoder>(); }};

}  // namespace spdl
