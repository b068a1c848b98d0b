#include "av/wav_size.h"

#include <array>
#include <cstddef>
#include <cstring>

#include "core/little_endian.h"

namespace spdl {
namespace {

// The largest sizes of 31 and 32 bits stand for one that is not known, some of them less what is in front of the sound.
bool is_open(std::int64_t size) {
    constexpr std::int64_t kBitsOf32 = 0xFFFFFFFF;
    constexpr std::int64_t kOpen = 0x7FFFF000;
    constexpr std::int64_t kOpenOf32 = 0xFFFFF000;
    constexpr std::int64_t kBitsOf31 = 0x7FFFFFFF;
    return size <= 0 || (size >= kOpen && size <= kBitsOf31) || (size >= kOpenOf32 && size <= kBitsOf32);
}

bool read_all(ByteSource& source, std::uint8_t* into, std::size_t size) {
    while (size > 0) {
        const std::size_t count = source.read(into, size);
        if (count == 0) {
            return false;
        }
        into += count;
        size -= count;
    }
    return true;
}

bool is(const std::uint8_t* bytes, const char* name) {
    return std::memcmp(bytes, name, 4) == 0;
}

struct Header {
    WavSize sound;
    std::int64_t file = 0;  // The bytes of the file, as the header says.
};

// The first chunk of RF64 and BW64 has the sizes that do not fit into 32 bits.
std::optional<Header> find_sound(ByteSource& source) {
    std::array<std::uint8_t, 12> head{};
    if (!read_all(source, head.data(), head.size()) || !is(head.data() + 8, "WAVE") ||
        !(is(head.data(), "RIFF") || is(head.data(), "RF64") || is(head.data(), "BW64"))) {
        return std::nullopt;
    }
    Header header{{}, load_le<std::uint32_t>(head.data() + 4)};
    constexpr std::int64_t kHeader = 8;
    std::int64_t position = static_cast<std::int64_t>(head.size());
    std::array<std::uint8_t, kHeader> chunk{};
    // Files have a handful. Zeros would be no end of empty ones.
    constexpr int kMostChunks = 1000;
    for (int i = 0; i < kMostChunks && read_all(source, chunk.data(), chunk.size()); ++i) {
        position += kHeader;
        const std::int64_t size = load_le<std::uint32_t>(chunk.data() + 4);
        std::array<std::uint8_t, 16> large{};
        if (is(chunk.data(), "ds64") && read_all(source, large.data(), large.size())) {
            header.file = static_cast<std::int64_t>(load_le<std::uint64_t>(large.data()));
            header.sound.promised = static_cast<std::int64_t>(load_le<std::uint64_t>(large.data() + 8));
        } else if (is(chunk.data(), "data")) {
            constexpr std::int64_t kInFirstChunk = 0xFFFFFFFF;
            header.sound.promised = size == kInFirstChunk && header.sound.promised > 0 ? header.sound.promised : size;
            header.sound.present = source.size() - position;
            return header;
        }
        position += size + (size & 1);
        if (position >= source.size()) {
            return std::nullopt;
        }
        source.seek(position);
    }
    return std::nullopt;
}

}  // namespace

std::optional<WavSize> find_cut_wav(ByteSource& source) {
    if (source.size() == ByteSource::kUnknown) {
        return std::nullopt;
    }
    const std::optional<Header> found = find_sound(source);
    source.seek(0);
    if (!found || found->sound.promised <= found->sound.present || is_open(found->sound.promised)) {
        return std::nullopt;
    }
    // Some programs count the header as sound. Such a file has the size that it says.
    const std::int64_t size = source.size();
    constexpr std::int64_t kBeforeSize = 8;
    const bool counts_header = found->sound.promised == size || found->sound.promised == size - kBeforeSize;
    return counts_header && found->file <= size ? std::nullopt : std::optional(found->sound);
}

}  // namespace spdl
