#pragma once

#include <cstdint>
#include <optional>

#include "core/byte_source.h"
#include "core/wav_sizes.h"

namespace spdl {

struct WavSize {
    std::int64_t promised = 0;  // The bytes of sound that the header says.
    std::int64_t present = 0;   // Those that there are.
};

// Reads the sizes of a WAV file from its beginning; nothing of other files. The first chunk of RF64 and BW64 has those
// that do not fit into 32 bits. The source, whose size is known, is then elsewhere.
std::optional<WavSizes> find_wav_sizes(ByteSource& source);

// Returns the size of the sound in a WAV file that was cut off; nothing for complete ones, other files, and those whose
// header leaves the size open, as that of a program does which writes to a pipe. FFmpeg does not tell. The source is
// then at its beginning.
std::optional<WavSize> find_cut_wav(ByteSource& source);

}  // namespace spdl
