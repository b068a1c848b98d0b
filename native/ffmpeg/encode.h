#pragma once

#include <string>

#include "core/aligned_buffer.h"
#include "ffmpeg/libav.h"
#include "media/demux_options.h"

namespace spdl {

struct EncodeOptions {
    std::string encoder;
    OptionList options;  // The encoder's, by FFmpeg's names.
    std::string muxer;   // Empty: the encoder's output is the file.
};

// Returns whether the encoder takes pixels of this format, or of one that they can be repacked to. Throws MediaError if
// FFmpeg has no encoder of that name.
bool encoder_takes(const std::string& encoder, AVPixelFormat format);

// Returns the picture as a file. Throws MediaError.
AlignedBuffer encode_picture(const AVFrame& picture, const EncodeOptions& options);

}  // namespace spdl
