#pragma once

#include "av/stream.h"
#include "ffmpeg/libav.h"

namespace spdl {

// Returns how many samples the packets of a stream decode to if that is the same for all of them (but perhaps the
// last); 0 if it is not, or is not known. `packet` is one of them.
int samples_of_each_packet(const AVCodecParameters& sound, const AVPacket& packet);

// Returns how many samples a stream of FLAC has, as its own header says; 0 for others, and if it does not say.
std::int64_t total_samples(const AVCodecParameters& sound);

// Returns how many bytes a sample of all channels has in PCM; 0 for coded sound, and PCM that packs samples together.
int bytes_of_sample(const AVCodecParameters& sound);

// Returns whether sound has to be counted from its beginning: neither the times of its packets nor a decoder that
// begins in the middle can be relied on, as with ADPCM.
bool is_counted(const Stream& stream);

// Returns whether the unit of the stream's times divides the duration of a sample, so that times are exact. Matroska
// counts in milliseconds.
bool times_are_exact(const Stream& stream);

}  // namespace spdl
