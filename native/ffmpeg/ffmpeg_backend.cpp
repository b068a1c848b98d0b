#include "ffmpeg/ffmpeg_backend.h"

#include <memory>

#include "ffmpeg/ffmpeg_decoder.h"

namespace spdl {

const Backend ffmpeg_backend{"ffmpeg", "decodes no packets of other backends",
                             []() -> std::unique_ptr<Decoder> { return std::make_unique<FfmpegDecoder>(); }};

}  // namespace spdl
