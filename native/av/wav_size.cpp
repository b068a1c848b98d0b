#include "av/wav_size.h"

#include <array>
#include <cstddef>
#include <cstring>

#include "core/little_endian.h"
#include "core/wav_sizes.h"

namespace spdl {
namespace {

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

}  // namespace

std::optional<WavSizes> find_wav_sizes(ByteSource& source) {
    std::array<std::uint8_t, 12> head{};
    if (!read_all(source, head.data(), head.size()) || !is(head.data() + 8, "WAVE") ||
        !(is(head.data(), "RIFF") || is(head.data(), "RF64") || is(head.data(), "BW64"))) {
        return std::nullopt;
    }
    WavSizes sizes;
    sizes.riff = load_le<std::uint32_t>(head.data() + 4);
    sizes.file = static_cast<std::uint64_t>(source.size());
    constexpr std::uint64_t kHeader = 8;
    std::uint64_t position = head.size();
    std::array<std::uint8_t, kHeader> chunk{};
    // Files have a handful. Zeros would be no end of empty ones.
    constexpr int kMostChunks = 1000;
    for (int i = 0; i < kMostChunks && read_all(source, chunk.data(), chunk.size()); ++i) {
        position += kHeader;
        const std::uint64_t size = load_le<std::uint32_t>(chunk.data() + 4);
        std::array<std::uint8_t, 16> large{};
        if (is(chunk.data(), "ds64") && read_all(source, large.data(), large.size())) {
            sizes.riff = load_le<std::uint64_t>(large.data());
            sizes.data = load_le<std::uint64_t>(large.data() + 8);
            sizes.place = position + 8;
        } else if (is(chunk.data(), "data")) {
            constexpr std::uint64_t kInFirstChunk = 0xFFFFFFFF;
            sizes.data = size == kInFirstChunk && sizes.data > 0 ? sizes.data : size;
            sizes.present = sizes.file - position;
            return sizes;
        }
        position += size + (size & 1);
        if (position >= sizes.file) {
            return std::nullopt;
        }
        source.seek(static_cast<std::int64_t>(position));
    }
    return std::nullopt;
}

std::optional<WavSize> find_cut_wav(ByteSource& source) {
    if (source.size() == ByteSource::kUnknown) {
        return std::nullopt;
    }
    const std::optional<WavSizes> found = find_wav_sizes(source);
    source.seek(0);
    if (!found) {
        return std::nullopt;
    }
    const std::uint64_t promised = bytes_of_sound(*found);
    return promised <= found->present
               ? std::nullopt
               : std::optional(WavSize{static_cast<std::int64_t>(promised), static_cast<std::int64_t>(found->present)});
}

}  // namespace spdl
