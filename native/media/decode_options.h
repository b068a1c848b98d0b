#pragma once

#include <cstdint>
#include <string>

#include "core/limits.h"
#include "media/demux_options.h"

namespace spdl {

struct Backend;

// How an image is decoded.
struct DecodeOptions {
    std::string decoder;  // One of FFmpeg's. Empty: libavcodec's own choice for the codec.
    OptionList decoder_options;
    std::int64_t max_pixels = kMaxPixels;
    const Backend* backend = nullptr;  // The only one that may decode; null: the first that can.
    bool keep_damaged = false;         // For JPEG decoded by libjpeg-turbo only: keep what there is of the image.

    // Returns whether the options ask for something that only FFmpeg has.
    [[nodiscard]] bool need_ffmpeg() const { return !decoder.empty() || !decoder_options.empty(); }
};

}  // namespace spdl
