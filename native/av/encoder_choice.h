#pragma once

#include <string>
#include <vector>

#include "av/stream.h"
#include "ffmpeg/libav.h"

namespace spdl {

// Returns the encoder of that name; with "" the one for the file format: that of the format's usual codec, if FFmpeg
// has one that runs without special hardware, otherwise one that most builds of FFmpeg have. `sample_format` tells
// codecs of plain samples apart. Throws MediaError.
const AVCodec& choose_encoder(Medium medium, const std::string& name, const AVOutputFormat& format,
                              AVSampleFormat sample_format);

// Return what the encoder takes; nothing if it does not tell, which means everything.
std::vector<AVPixelFormat> pixel_formats(const AVCodec& encoder);
std::vector<AVSampleFormat> sample_formats(const AVCodec& encoder);
std::vector<int> sample_rates(const AVCodec& encoder);
std::vector<const AVChannelLayout*> channel_layouts(const AVCodec& encoder);

// Returns the elements, written by `name`, with commas between them.
template <typename T, typename Name>
std::string listed(const std::vector<T>& elements, const Name& name) {
    std::string text;
    for (const T& element : elements) {
        text += (text.empty() ? "" : ", ") + std::string(name(element));
    }
    return text;
}

}  // namespace spdl
