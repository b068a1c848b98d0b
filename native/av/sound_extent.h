#pragma once

#include <cstdint>

#include "av/container.h"
#include "media/decode_options.h"

namespace spdl {

// Where the sound of a stream lies on its time line, in samples of one channel.
struct SoundExtent {
    std::int64_t start = 0;    // The place of the first sample, which is 0 at time 0.
    std::int64_t samples = 0;  // Up to the last one, gaps included.
    int rate = 0;
};

// Reads all packets of an audio stream, and decodes the first and the last ones: packets and containers do not say to
// the sample how long the sound is.
SoundExtent measure_sound(Container& container, int index, const DecodeOptions& options);

}  // namespace spdl
