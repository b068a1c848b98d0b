#include "av/sound_tags.h"

#include <algorithm>

#include "core/little_endian.h"

namespace spdl {
namespace {

// A tag of APE with a header in front says how much follows that.
std::int64_t ape_bytes(Bytes bytes) {
    constexpr unsigned kIsHeader = 0x20;
    if (bytes.size() < kApeHead || !begins(bytes, "APETAGEX") || (bytes[23] & kIsHeader) == 0) {
        return 0;
    }
    return kApeHead + ape_contents(bytes);
}

}  // namespace

// ID3v2, section 3.1: a version, flags, and a size with seven bits in each byte.
std::optional<std::int64_t> id3v2_contents(Bytes head) {
    if (head.size() < kId3v2Head || head[3] == 0xFF || head[4] == 0xFF) {
        return std::nullopt;
    }
    std::int64_t size = 0;
    for (std::size_t i = 6; i < kId3v2Head; ++i) {
        if (head[i] >= 0x80) {
            return std::nullopt;
        }
        size = size << 7 | head[i];
    }
    return size;
}

std::int64_t ape_contents(Bytes head) {
    return load_le<std::uint32_t>(head.data() + 12);
}

std::int64_t id3v2_bytes(Bytes bytes) {
    constexpr unsigned kFooter = 0x10;
    const std::optional<std::int64_t> contents = id3v2_contents(bytes);
    if (!contents || !begins(bytes, "ID3")) {
        return 0;
    }
    return kId3v2Head * ((bytes[5] & kFooter) != 0 ? 2 : 1) + *contents;
}

std::int64_t tag_bytes(Bytes bytes) {
    if (begins(bytes, "TAG")) {
        return begins(bytes, "TAG+") ? kEnhancedId3v1 : kId3v1;
    }
    return std::max(id3v2_bytes(bytes), ape_bytes(bytes));
}

}  // namespace spdl
