#include "core/tiff_directory.h"

#include <cstddef>

#include "core/bounded_read.h"

namespace spdl {
namespace {

struct Entry {
    Bytes values;  // From the first to the end of the file.
    std::size_t count;
    std::size_t size;  // Of one, in bytes; 0 where they are no integers.
    bool little_endian;

    [[nodiscard]] std::uint32_t value(std::size_t index) const {
        return read_integer(values, index * size, size, little_endian);
    }
};

std::size_t integer_size(std::uint32_t type) {
    constexpr std::uint32_t kByte = 1;
    constexpr std::uint32_t kShort = 3;
    constexpr std::uint32_t kLong = 4;
    return type == kByte ? 1 : type == kShort ? 2 : type == kLong ? 4 : 0;
}

std::optional<Entry> find(Bytes tiff, std::uint16_t tag) {
    constexpr std::size_t kEntryBytes = 12;
    constexpr std::size_t kInPlace = 4;
    if (tiff.size() < 8 || tiff[0] != tiff[1] || (tiff[0] != 'I' && tiff[0] != 'M')) {
        return std::nullopt;
    }
    const bool little_endian = tiff[0] == 'I';
    if (read_integer(tiff, 2, 2, little_endian) != 42) {
        return std::nullopt;
    }
    const Bytes directory = tail(tiff, read_integer(tiff, 4, 4, little_endian));
    for (std::size_t i = read_integer(directory, 0, 2, little_endian); i-- > 0;) {
        const Bytes entry = tail(directory, 2 + i * kEntryBytes);
        if (entry.size() < kEntryBytes || read_integer(entry, 0, 2, little_endian) != tag) {
            continue;
        }
        const std::size_t size = integer_size(read_integer(entry, 2, 2, little_endian));
        const std::size_t count = read_integer(entry, 4, 4, little_endian);
        const bool in_place = size * count <= kInPlace;
        return Entry{in_place ? entry.subspan(8) : tail(tiff, read_integer(entry, 8, 4, little_endian)), count, size,
                     little_endian};
    }
    return std::nullopt;
}

}  // namespace

std::optional<std::uint32_t> tiff_entry(Bytes tiff, std::uint16_t tag) noexcept {
    const std::optional<Entry> entry = find(tiff, tag);
    if (!entry || entry->count != 1 || entry->size == 0) {
        return std::nullopt;
    }
    return entry->value(0);
}

std::vector<std::uint32_t> tiff_values(Bytes tiff, std::uint16_t tag) {
    std::vector<std::uint32_t> values;
    const std::optional<Entry> entry = find(tiff, tag);
    if (entry && entry->size != 0 && entry->count <= entry->values.size() / entry->size) {
        values.reserve(entry->count);
        for (std::size_t i = 0; i < entry->count; ++i) {
            values.push_back(entry->value(i));
        }
    }
    return values;
}

bool has_tiff_entry(Bytes tiff, std::uint16_t tag) noexcept {
    return find(tiff, tag).has_value();
}

}  // namespace spdl
