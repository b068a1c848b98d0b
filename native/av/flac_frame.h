#pragma once

#include <cstdint>

#include "core/bytes.h"
#include "ffmpeg/libav.h"

namespace spdl {

// Returns how many samples there are in a frame of FLAC; 0 if that is none.
int flac_samples(Bytes frame);

// Returns how many samples a stream of FLAC has, as its own header says; 0 for others, and if it does not say.
std::int64_t total_samples(const AVCodecParameters& sound);

// Gives a packet of a FLAC file, which is a frame, the times that the frame says. FFmpeg makes up other ones for the
// last frame of a file that another one follows.
void tell_times(AVPacket& frame, const AVStream& stream);

}  // namespace spdl
