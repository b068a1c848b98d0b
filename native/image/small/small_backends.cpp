#include <memory>

#include "image/small/bmp_decoder.h"
#include "image/small/gif_decoder.h"
#include "image/small/pnm_decoder.h"
#include "image/small/qoi_decoder.h"
#include "media/backend.h"

namespace spdl {

extern const Backend gif_backend;
extern const Backend bmp_backend;
extern const Backend qoi_backend;
extern const Backend pnm_backend;
const Backend gif_backend{"gif", "decodes GIF only, without FFmpeg's options",
                          []() -> std::unique_ptr<Decoder> { return std::make_unique<GifDecoder>(); }};
const Backend bmp_backend{"bmp", "decodes BMP only, without FFmpeg's options",
                          []() -> std::unique_ptr<Decoder> { return std::make_unique<BmpDecoder>(); }};
const Backend qoi_backend{"qoi", "decodes QOI only, without FFmpeg's options",
                          []() -> std::unique_ptr<Decoder> { return std::make_unique<QoiDecoder>(); }};
const Backend pnm_backend{"pnm", "decodes PBM, PGM and PPM only, without FFmpeg's options",
                          []() -> std::unique_ptr<Decoder> { return std::make_unique<PnmDecoder>(); }};

}  // namespace spdl
