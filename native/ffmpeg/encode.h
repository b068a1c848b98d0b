#pragma once

#include <string>

#include "core/aligned_buffer.h"
#include "ffmpeg/libav.h"
#include "media/demux_options.h"

namespace spdl {

struct EncodeOptions {
    std::string encoder;
    OptionList options;  // Of the encoder, by FFmpeg's names.
    std::string muxer;   // Empty: what the encoder gives is the file.
};

// Whether the encoder takes pixels of this format, or such as they can be repacked to. Throws MediaError where FFmpeg
// has no encoder of that name.
bool encoder_takes(const std::string& encoder, AVPixelFormat format);

// The picture as a file. Throws MediaError.
AlignedBuffer encode_picture(const AVFrame& picture, const EncodeOptions& options);

}  // namespace spdl
