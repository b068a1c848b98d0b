#pragma once

#include <cstddef>
#include <cstdint>

#include "core/bytes.h"

namespace spdl {

// The `fmt` and `data` chunks of a RIFF, RF64 or BW64 WAVE file. Sizes are as the header says them.
struct WavHeader {
    // 1 is integers, 3 floating point. For extensible files it is the format in their extension.
    std::uint16_t audio_format = 0;
    std::uint16_t num_channels = 0;
    std::uint32_t sample_rate = 0;
    std::uint32_t byte_rate = 0;
    std::uint16_t block_align = 0;
    std::uint16_t bits_per_sample = 0;
    std::uint64_t data_size = 0;
    // That of the file without its first 8 bytes.
    std::uint64_t riff_size = 0;
    // The start of the samples.
    std::size_t offset = 0;
};

// Reads up to the start of the samples, which need not be there. Throws FormatError.
WavHeader parse_wav_header(Bytes data);

// The kind and the place of the samples. Everything that `load_wav` relies on is checked.
struct WavSamples {
    // NumPy's letter for the kind of number.
    char kind;
    std::size_t bytes;
    std::size_t channels;
    std::size_t frames;
    std::uint32_t sample_rate;
    std::size_t offset;
};

// Throws FormatError, even if samples are missing or of a kind that has no array type.
WavSamples find_wav_samples(Bytes data);

}  // namespace spdl
