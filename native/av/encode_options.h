#pragma once

#include <cstdint>
#include <string>

#include "media/demux_options.h"

namespace spdl {

// What frames are given to an encoder, and what it is told besides. -1 and "" leave a setting to the encoder.
struct EncoderSettings {
    std::string encoder;  // FFmpeg's name; "": the usual one for the file format.
    OptionList options;   // The encoder's, by FFmpeg's names.
    std::int64_t bit_rate = -1;
    int compression_level = -1;
    int qscale = -1;
};

struct AudioEncodeOptions : EncoderSettings {
    int num_channels = 0;
    int sample_rate = 0;
    std::string sample_format;
};

struct VideoEncodeOptions : EncoderSettings {
    int width = 0;
    int height = 0;
    int frame_rate[2] = {0, 1};  // 0/1: not given.
    std::string pixel_format;
    int gop_size = -1;
    int max_b_frames = -1;
    std::string colorspace;
    std::string color_primaries;
    std::string color_trc;
};

}  // namespace spdl
