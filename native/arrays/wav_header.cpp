#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <string_view>

#include "arrays/arrays.h"
#include "core/bytes.h"
#include "core/errors.h"
#include "core/file_parts.h"

namespace spdl {
namespace {

constexpr std::uint16_t kIntegers = 1;
constexpr std::uint16_t kFloats = 3;
constexpr std::uint16_t kExtensible = 0xfffe;

constexpr std::size_t kRiffBytes = 12;
constexpr std::size_t kChunkHeader = 8;
constexpr std::size_t kFormatBytes = 16;
constexpr std::size_t kExtensibleBytes = 40;

// The 32-bit size of a file whose size is in the ds64 chunk, or was never filled in.
constexpr std::uint32_t kUnknownSize = 0xffffffff;

// The extension's format without its first two bytes, which hold one of the formats above.
constexpr std::array<std::uint8_t, 14> kGuidTail = {0x00, 0x00, 0x00, 0x00, 0x10, 0x00, 0x80,
                                                    0x00, 0x00, 0xaa, 0x00, 0x38, 0x9b, 0x71};

std::string at(std::size_t offset) {
    return " at byte " + std::to_string(offset);
}

bool is(const std::uint8_t* bytes, std::string_view text) {
    return std::memcmp(bytes, text.data(), text.size()) == 0;
}

// Names may be any bytes.
std::string printable(const std::uint8_t* name) {
    std::string text;
    for (std::size_t index = 0; index < 4; ++index) {
        text += name[index] >= ' ' && name[index] < 0x7f ? static_cast<char>(name[index]) : '?';
    }
    return '"' + text + '"';
}

void read_format(Bytes data, std::size_t offset, std::size_t size, WavHeader& header) {
    if (size < kFormatBytes) {
        throw FormatError("the wav data has a fmt chunk of " + std::to_string(size) + " bytes, fewer than 16," +
                          at(offset));
    }
    const std::uint8_t* const field = data.data() + offset;
    header.audio_format = load_le<std::uint16_t>(field);
    header.num_channels = load_le<std::uint16_t>(field + 2);
    header.sample_rate = load_le<std::uint32_t>(field + 4);
    header.byte_rate = load_le<std::uint32_t>(field + 8);
    header.block_align = load_le<std::uint16_t>(field + 12);
    header.bits_per_sample = load_le<std::uint16_t>(field + 14);
    if (header.audio_format == kExtensible && size >= kExtensibleBytes &&
        std::memcmp(field + 26, kGuidTail.data(), kGuidTail.size()) == 0) {
        header.audio_format = load_le<std::uint16_t>(field + 24);
    }
    if (header.num_channels == 0) {
        throw FormatError("the wav data says that it has 0 channels," + at(offset + 2));
    }
    if (header.sample_rate == 0) {
        throw FormatError("the wav data says that its sample rate is 0," + at(offset + 4));
    }
}

}  // namespace

WavHeader parse_wav_header(Bytes data) {
    const bool large = data.size() >= kRiffBytes && (is(data.data(), "RF64") || is(data.data(), "BW64"));
    if (data.size() < kRiffBytes || !(large || is(data.data(), "RIFF")) || !is(data.data() + 8, "WAVE")) {
        throw FormatError("this is not wav data: the " + std::to_string(data.size()) +
                          " bytes do not begin with \"RIFF\", \"RF64\" or \"BW64\", a size and \"WAVE\"");
    }
    WavHeader header;
    header.riff_size = load_le<std::uint32_t>(data.data() + 4);
    bool has_format = false;
    std::uint64_t large_size = kUnknownSize;
    std::size_t offset = kRiffBytes;
    while (data.size() - offset >= kChunkHeader) {
        const std::uint8_t* const name = data.data() + offset;
        const std::uint32_t size = load_le<std::uint32_t>(name + 4);
        const std::size_t content = offset + kChunkHeader;
        if (is(name, "data")) {
            if (!has_format) {
                throw FormatError("the wav data has its data chunk before a fmt chunk," + at(offset));
            }
            header.data_size = large && size == kUnknownSize ? large_size : size;
            header.offset = content;
            return header;
        }
        if (size > data.size() - content) {
            throw FormatError("the wav data is truncated or damaged: its chunk " + printable(name) + " of " +
                              std::to_string(size) + " bytes" + at(offset) + " goes beyond the end, byte " +
                              std::to_string(data.size()));
        }
        if (is(name, "fmt ")) {
            if (has_format) {
                throw FormatError("the wav data has a second fmt chunk" + at(offset));
            }
            read_format(data, content, size, header);
            has_format = true;
        } else if (large && is(name, "ds64") && size >= 24) {
            header.riff_size = load_le<std::uint64_t>(data.data() + content);
            large_size = load_le<std::uint64_t>(data.data() + content + 8);
        }
        // Chunks begin at even places.
        const std::size_t padded = std::size_t{size} + (size & 1);
        if (padded > data.size() - content) {
            break;
        }
        offset = content + padded;
    }
    throw FormatError(std::string("the wav data ends without a ") + (has_format ? "data" : "fmt") + " chunk" +
                      at(data.size()));
}

WavSamples find_wav_samples(Bytes data) {
    const WavHeader header = parse_wav_header(data);
    const std::size_t bytes = header.bits_per_sample / 8;
    char kind = '\0';
    if (header.audio_format == kIntegers) {
        kind = header.bits_per_sample == 8                                    ? 'u'
               : header.bits_per_sample == 16 || header.bits_per_sample == 32 ? 'i'
                                                                              : '\0';
    } else if (header.audio_format == kFloats && (header.bits_per_sample == 32 || header.bits_per_sample == 64)) {
        kind = 'f';
    }
    if (kind == '\0') {
        throw FormatError("the wav data has samples of format " + std::to_string(header.audio_format) + " with " +
                          std::to_string(header.bits_per_sample) +
                          " bits, of which no array can be a view; those of format 1 (integers) with 8, 16 or 32 bits "
                          "and of format 3 (floating point) with 32 or 64 bits can be loaded");
    }
    const std::size_t block = bytes * header.num_channels;
    if (header.block_align != block) {
        throw FormatError("the wav data says that a frame has " + std::to_string(header.block_align) + " bytes, but " +
                          std::to_string(header.num_channels) + " channels of " + std::to_string(bytes) +
                          " bytes have " + std::to_string(block));
    }
    const std::size_t present = data.size() - header.offset;
    const std::uint64_t size = bytes_of_sound({header.riff_size, header.data_size, data.size(), 0, present});
    // The sound of some files ends within a frame; nothing is missing then.
    if (size / block > present / block) {
        throw FormatError("the wav data is truncated: its data chunk" + at(header.offset) + " has " +
                          std::to_string(size / block) + " frames, of which " + std::to_string(present / block) +
                          " are in front of the end, byte " + std::to_string(data.size()));
    }
    return {kind,
            bytes,
            header.num_channels,
            static_cast<std::size_t>(std::min<std::uint64_t>(size, present) / block),
            header.sample_rate,
            header.offset};
}

}  // namespace spdl
