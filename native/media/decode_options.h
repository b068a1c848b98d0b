#pragma once

#include <cstdint>
#include <string>

#include "core/limits.h"
#include "media/demux_options.h"

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

// How an image is decoded.
struct DecodeOptions {
    std::string decoder;  // Empty: libavcodec's own choice for the codec.
    OptionList decoder_options;
    std::int64_t max_pixels = kMaxPixels;
    Backend backend = Backend::kAny;
    bool keep_truncated = false;  // JPEG decoded by libjpeg-turbo only; FFmpeg decides for other images.

    // Whether they ask for something that only FFmpeg's decoders know.
    [[nodiscard]] bool need_ffmpeg() const {
        return !decoder.empty() || !decoder_options.empty() || backend == Backend::kFfmpeg;
    }
};

}  // namespace spdl
