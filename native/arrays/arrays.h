#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/bytes.h"

namespace spdl {

// The header of a .npy file, in NumPy's format, versions 1 to 3.
struct NpyHeader {
    // NumPy 2 has as many.
    static constexpr std::size_t kMaxDims = 64;

    // The element type as NumPy spells it: "<f4". For structured types it is the whole list of fields, a Python literal
    // whose brackets and quotes match.
    std::string_view descr;
    bool structured = false;
    // The names of fields are in Latin-1 before version 3, and in UTF-8 from then on.
    bool utf8 = false;
    bool fortran_order = false;
    std::size_t dims = 0;
    // Not initialised beyond `dims`: the header is read for every array.
    std::array<std::size_t, kMaxDims> sides;
    std::size_t elements = 1;
    // The start of the elements.
    std::size_t offset = 0;

    [[nodiscard]] std::span<const std::size_t> shape() const { return {sides.data(), dims}; }
};

// Reads the header at the beginning of `data`; the views in it are of `data`. Throws FormatError.
NpyHeader parse_npy_header(Bytes data);

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

// Rows in a random place cost a cache miss each. These functions ask for the memory of a row some rows before its turn,
// so that several misses are under way. All of them throw std::invalid_argument for a row that is not there.

// Copies rows of a table of bytes.
void gather_rows(std::span<const std::uint8_t> table, std::size_t width, std::span<const std::int64_t> rows,
                 std::span<std::uint8_t> target);

// Writes where the lists of some rows begin when they are put one after the other, and where the last one ends. List i
// has the values from offsets[i] to before offsets[i + 1].
template <typename Offset>
void gather_offsets(std::span<const Offset> offsets, std::span<const std::int64_t> rows,
                    std::span<std::int64_t> target);

// Copies the values of the lists of some rows, which are `width` bytes each. `places` is from gather_offsets.
template <typename Offset>
void gather_lists(std::span<const Offset> offsets, std::span<const std::uint8_t> values, std::size_t width,
                  std::span<const std::int64_t> rows, std::span<const std::int64_t> places,
                  std::span<std::uint8_t> target);

// A column of numbers of 1, 2, 4 or 8 bytes, and its place in a record.
struct Field {
    const std::uint8_t* values = nullptr;
    std::size_t width = 0;
    std::size_t offset = 0;
};

// Writes the columns into records of `stride` bytes. The columns have as many numbers as there are records.
void interleave(std::span<const Field> fields, std::size_t stride, std::span<std::uint8_t> records);

}  // namespace spdl
