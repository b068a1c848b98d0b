#pragma once

#include <cstdint>
#include <string>

#include "core/limits.h"
#include "ffmpeg/demux.h"
#include "ffmpeg/libav.h"

namespace spdl {

// Who does the work.
enum class Backend {
    kAny,     // libjpeg-turbo decodes JPEG, FFmpeg everything else; simple filters are our own.
    kTurbo,   // libjpeg-turbo and our own filters, or nobody.
    kFfmpeg,  // FFmpeg decodes, and FFmpeg's filters do the rest.
};

// As Python knows them; "" for any.
constexpr const char* backend_name(Backend backend) {
    return backend == Backend::kTurbo ? "libjpeg-turbo" : backend == Backend::kFfmpeg ? "ffmpeg" : "";
}

struct DecodeOptions {
    std::string decoder;  // Empty: libavcodec's own choice for the codec.
    OptionList decoder_options;
    std::int64_t max_pixels = kMaxPixels;
    Backend backend = Backend::kAny;
    bool keep_truncated = false;  // Of JPEG, by libjpeg-turbo; others are for FFmpeg to judge.

    // Whether libjpeg-turbo may decode what is a JPEG.
    [[nodiscard]] bool leave_jpeg() const {
        return decoder.empty() && decoder_options.empty() && backend != Backend::kFfmpeg;
    }
};

// The picture in `image`, in the pixel format in which it is stored. Throws MediaError.
FramePtr decode_picture(const ImagePacket& image, const DecodeOptions& options);

}  // namespace spdl
