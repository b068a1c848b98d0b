#include "image/orientation/exif_value.h"

#include <bit>
#include <cstddef>
#include <iterator>
#include <limits>

#include "core/bounded_read.h"

namespace spdl {
namespace {

enum Type : std::uint32_t {
    kShort = 3,
    kLong = 4,
    kRational = 5,
    kSignedByte = 6,
    kSignedShort = 8,
    kSignedLong = 9,
    kSignedRational = 10,
    kFloat = 11,
    kDouble = 12,
    kDirectory = 13,
    kLong8 = 16,
};

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

// Returns the size of a value of a type; 0 if there is no such type.
std::size_t size_of(std::uint32_t type) {
    constexpr std::size_t kSizes[] = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8};
    return type < std::size(kSizes) ? kSizes[type] : 0;
}

double number(Bytes value, std::uint32_t type, bool little_endian) {
    const auto read = [&](std::size_t at, std::size_t size) { return read_integer(value, at, size, little_endian); };
    const auto wide = [&] {
        return static_cast<std::uint64_t>(read(little_endian ? 4 : 0, 4)) << 32U | read(little_endian ? 0 : 4, 4);
    };
    switch (type) {
        case kShort:
            return read(0, 2);
        case kLong:
        case kDirectory:
            return read(0, 4);
        case kSignedByte:
            return static_cast<std::int8_t>(read(0, 1));
        case kSignedShort:
            return static_cast<std::int16_t>(read(0, 2));
        case kSignedLong:
            return static_cast<std::int32_t>(read(0, 4));
        case kRational:
            return static_cast<double>(read(0, 4)) / read(4, 4);
        case kSignedRational:
            return static_cast<double>(static_cast<std::int32_t>(read(0, 4))) / static_cast<std::int32_t>(read(4, 4));
        case kFloat:
            return std::bit_cast<float>(read(0, 4));
        case kDouble:
            return std::bit_cast<double>(wide());
        case kLong8:
            return static_cast<double>(wide());
        default:
            return kNoNumber;
    }
}

}  // namespace

std::optional<double> exif_value(Bytes exif, std::uint16_t tag) {
    constexpr std::size_t kEntryBytes = 12;
    constexpr std::size_t kInPlace = 4;
    // Some programs write the number in the header in the other order.
    const std::uint32_t magic = read_integer(exif, 2, 2, true);
    if (exif.size() < 8 || exif[0] != exif[1] || (exif[0] != 'I' && exif[0] != 'M') ||
        (magic != 42 && magic != 42U << 8U)) {
        return kNoNumber;
    }
    const bool little_endian = exif[0] == 'I';
    const auto read = [&](Bytes bytes, std::size_t at, std::size_t size) {
        return read_integer(bytes, at, size, little_endian);
    };
    const std::size_t directory = read(exif, 4, 4);
    Bytes entries = tail(exif, directory + 2);
    std::size_t left = exif.size();  // For the values of all entries together.
    for (std::size_t i = read(exif, directory, 2); i > 0 && entries.size() >= kEntryBytes; --i) {
        const Bytes entry = entries.first(kEntryBytes);
        entries = entries.subspan(kEntryBytes);
        const std::uint32_t type = read(entry, 2, 2);
        const std::size_t size = size_of(type) * read(entry, 4, 4);
        Bytes values = entry.subspan(8);
        if (size == 0) {
            continue;
        }
        if (size > kInPlace) {
            if (size > left) {
                left = 0;
                continue;
            }
            left -= size;
            values = tail(exif, read(entry, 8, 4));
            if (values.size() < size) {
                break;
            }
        }
        if (read(entry, 0, 2) == tag) {
            return number(values, type, little_endian);
        }
    }
    return std::nullopt;
}

}  // namespace spdl
