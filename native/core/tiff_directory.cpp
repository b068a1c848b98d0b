#include "core/tiff_directory.h"

#include <cstddef>

namespace spdl {
namespace {

Bytes from(Bytes bytes, std::size_t offset) {
    return offset < bytes.size() ? bytes.subspan(offset) : Bytes();
}

// Integers of `size` bytes; 0 where the bytes end before.
std::uint32_t read(Bytes bytes, std::size_t offset, std::size_t size, bool little_endian) {
    const Bytes rest = from(bytes, offset);
    if (rest.size() < size) {
        return 0;
    }
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < size; ++i) {
        value = value << 8U | rest[little_endian ? size - 1 - i : i];
    }
    return value;
}

struct Entry {
    Bytes bytes;
    bool little_endian;
};

std::optional<Entry> find(Bytes tiff, std::uint16_t tag) {
    constexpr std::size_t kEntryBytes = 12;
    if (tiff.size() < 8 || tiff[0] != tiff[1] || (tiff[0] != 'I' && tiff[0] != 'M')) {
        return std::nullopt;
    }
    const bool little_endian = tiff[0] == 'I';
    if (read(tiff, 2, 2, little_endian) != 42) {
        return std::nullopt;
    }
    const Bytes directory = from(tiff, read(tiff, 4, 4, little_endian));
    const std::size_t entries = read(directory, 0, 2, little_endian);
    for (std::size_t i = 0; i < entries; ++i) {
        const Bytes entry = from(directory, 2 + i * kEntryBytes);
        if (entry.size() < kEntryBytes) {
            break;
        }
        if (read(entry, 0, 2, little_endian) == tag) {
            return Entry{entry, little_endian};
        }
    }
    return std::nullopt;
}

}  // namespace

std::optional<std::uint32_t> tiff_entry(Bytes tiff, std::uint16_t tag) noexcept {
    constexpr std::uint32_t kByte = 1;
    constexpr std::uint32_t kShort = 3;
    constexpr std::uint32_t kLong = 4;
    const std::optional<Entry> entry = find(tiff, tag);
    if (!entry) {
        return std::nullopt;
    }
    const std::uint32_t type = read(entry->bytes, 2, 2, entry->little_endian);
    if (read(entry->bytes, 4, 4, entry->little_endian) != 1 || (type != kByte && type != kShort && type != kLong)) {
        return std::nullopt;
    }
    return read(entry->bytes, 8, type == kByte ? 1 : type == kShort ? 2 : 4, entry->little_endian);
}

bool has_tiff_entry(Bytes tiff, std::uint16_t tag) noexcept {
    return find(tiff, tag).has_value();
}

}  // namespace spdl
