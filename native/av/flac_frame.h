#pragma once

#include <cstdint>

#include "core/bytes.h"
#include "ffmpeg/libav.h"

namespace spdl {

// Returns how many samples there are in a frame of FLAC; 0 if that is none.
int flac_samples(Bytes frame);

// Returns how many samples a stream of FLAC has, as its own header says; 0 for others, and if it does not say.
std::int64_t total_samples(const AVCodecParameters& sound);

// Returns whether a frame begins in these bytes that ends with the last sample that the stream's header says.
bool has_last_frame(Bytes bytes, const AVCodecParameters& sound);

}  // namespace spdl
