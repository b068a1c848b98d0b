#include "image/png/png_backend.h"

#include <memory>

#include "image/png/png_decoder.h"

namespace spdl {

const Backend libdeflate_backend{"libdeflate", "decodes PNG only, without FFmpeg's options",
                                 []() -> std::unique_ptr<Decoder> { return std::make_unique<PngDecoder>(); }};

}  // namespace spdl
