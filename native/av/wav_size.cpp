#include "av/wav_size.h"

#include <array>
#include <cstddef>
#include <cstring>

#include "core/little_endian.h"

namespace spdl {
namespace {

// The largest sizes stand for one that is not known, some of them less what is in front of the sound.
constexpr std::int64_t kOpen = 0x7FFFF000;

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

std::optional<WavSize> find_sound(ByteSource& source) {
    std::array<std::uint8_t, 12> head{};
    if (!read_all(source, head.data(), head.size()) || std::memcmp(head.data(), "RIFF", 4) != 0 ||
        std::memcmp(head.data() + 8, "WAVE", 4) != 0) {
        return std::nullopt;
    }
    constexpr std::int64_t kHeader = 8;
    std::int64_t position = static_cast<std::int64_t>(head.size());
    std::array<std::uint8_t, kHeader> chunk{};
    // Files have a handful. Zeros would be no end of empty ones.
    constexpr int kMostChunks = 1000;
    for (int i = 0; i < kMostChunks && read_all(source, chunk.data(), chunk.size()); ++i) {
        position += kHeader;
        const std::int64_t size = load_le<std::uint32_t>(chunk.data() + 4);
        if (std::memcmp(chunk.data(), "data", 4) == 0) {
            return WavSize{size, source.size() - position};
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
    const std::optional<WavSize> found = find_sound(source);
    source.seek(0);
    // Some programs count the header, too.
    return found && source.size() < found->promised && found->promised < kOpen ? found : std::nullopt;
}

}  // namespace spdl
