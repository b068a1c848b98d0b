#include "image/orientation/exif_value.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <iterator>
#include <limits>

#include "core/bounded_read.h"
#include "core/tiff_directory.h"

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

double number(Bytes value, std::uint32_t type, const TiffLayout& layout) {
    const auto read = [&](std::size_t at, std::size_t size) {
        return static_cast<std::uint32_t>(layout.read(value, at, size));
    };
    const auto wide = [&] { return layout.read(value, 0, 8); };
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
    // Some programs write the number in the header in the other order.
    const std::uint32_t magic = read_integer(exif, 2, 2, true);
    if (exif.size() < 8 || exif[0] != exif[1] || (exif[0] != 'I' && exif[0] != 'M')) {
        return kNoNumber;
    }
    const bool big = magic == 43 || magic == 43U << 8U;
    if (!big && magic != 42 && magic != 42U << 8U) {
        return kNoNumber;
    }
    const TiffLayout layout{exif[0] == 'I', big};
    const std::size_t entry_bytes = layout.entry_bytes();
    const std::size_t in_place = layout.offset_bytes();
    const std::uint64_t directory = layout.first_directory(exif);
    if (directory >= exif.size()) {
        return std::nullopt;
    }
    Bytes entries = tail(exif, directory + layout.count_bytes());
    std::size_t left = exif.size();  // For the values of all entries together.
    for (std::uint64_t i = layout.read(exif, directory, layout.count_bytes()); i > 0 && entries.size() >= entry_bytes;
         --i) {
        const Bytes entry = entries.first(entry_bytes);
        entries = entries.subspan(entry_bytes);
        const auto type = static_cast<std::uint32_t>(layout.read(entry, 2, 2));
        const std::uint64_t count = layout.read(entry, 4, in_place);
        const std::size_t size = size_of(type) * std::min<std::uint64_t>(count, exif.size() + 1);
        Bytes values = entry.subspan(4 + in_place);
        if (size == 0) {
            continue;
        }
        if (size > in_place) {
            if (size > left) {
                left = 0;
                continue;
            }
            left -= size;
            values = tail(exif, layout.read(entry, 4 + in_place, in_place));
            if (values.size() < size) {
                break;
            }
        }
        if (layout.read(entry, 0, 2) == tag) {
            return number(values, type, layout);
        }
    }
    return std::nullopt;
}

}  // namespace spdl
