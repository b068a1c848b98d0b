#include "core/tiff_directory.h"

#include "core/bounded_read.h"

namespace spdl {
namespace {

constexpr std::size_t kEntryBytes = 12;

// The types of integers, with their sizes.
std::size_t integer_size(std::uint32_t type) {
    switch (type) {
        case 1:  // BYTE
        case 6:  // SBYTE
            return 1;
        case 3:  // SHORT
        case 8:  // SSHORT
            return 2;
        case 4:   // LONG
        case 9:   // SLONG
        case 13:  // IFD
            return 4;
        default:
            return 0;
    }
}

bool is_signed(std::uint32_t type) {
    return type == 6 || type == 8 || type == 9;
}

}  // namespace

std::uint32_t TiffDirectory::Entry::value(std::size_t index) const {
    return read_integer(values, index * size, size, little_endian);
}

TiffDirectory::TiffDirectory(Bytes tiff, std::uint32_t offset, bool little_endian) noexcept
    : tiff_(tiff),
      entries_(tail(tiff, std::size_t{offset} + 2)),
      count_(read_integer(tiff, offset, 2, little_endian)),
      little_endian_(little_endian) {}

std::optional<TiffDirectory> TiffDirectory::first(Bytes tiff) noexcept {
    if (tiff.size() < 8 || tiff[0] != tiff[1] || (tiff[0] != 'I' && tiff[0] != 'M')) {
        return std::nullopt;
    }
    const bool little_endian = tiff[0] == 'I';
    if (read_integer(tiff, 2, 2, little_endian) != 42) {
        return std::nullopt;
    }
    return TiffDirectory(tiff, read_integer(tiff, 4, 4, little_endian), little_endian);
}

std::uint32_t TiffDirectory::next() const noexcept {
    return read_integer(entries_, count_ * kEntryBytes, 4, little_endian_);
}

std::optional<TiffDirectory::Entry> TiffDirectory::find(std::uint16_t tag) const noexcept {
    constexpr std::size_t kInPlace = 4;
    for (std::size_t i = count_; i-- > 0;) {
        const Bytes entry = tail(entries_, i * kEntryBytes);
        if (entry.size() >= kEntryBytes && read_integer(entry, 0, 2, little_endian_) == tag) {
            const std::uint32_t type = read_integer(entry, 2, 2, little_endian_);
            const std::size_t size = integer_size(type);
            const std::size_t count = read_integer(entry, 4, 4, little_endian_);
            const Bytes values =
                size * count <= kInPlace ? entry.subspan(8) : tail(tiff_, read_integer(entry, 8, 4, little_endian_));
            return Entry{entry.first(kEntryBytes), values, count, size, is_signed(type), little_endian_};
        }
    }
    return std::nullopt;
}

bool TiffDirectory::truncated() const noexcept {
    return count_ == 0 || entries_.size() < count_ * kEntryBytes;
}

Bytes TiffDirectory::stored(std::uint16_t tag) const noexcept {
    const std::optional<Entry> entry = find(tag);
    return entry ? entry->stored : Bytes();
}

std::optional<std::uint32_t> TiffDirectory::integer(std::uint16_t tag) const noexcept {
    const std::optional<Entry> entry = find(tag);
    if (!entry || entry->count != 1 || entry->size == 0) {
        return std::nullopt;
    }
    return entry->value(0);
}

std::vector<std::uint32_t> TiffDirectory::integers(std::uint16_t tag) const {
    std::vector<std::uint32_t> values;
    const std::optional<Entry> entry = find(tag);
    if (entry && entry->size != 0 && !entry->has_sign && entry->count <= entry->values.size() / entry->size) {
        values.reserve(entry->count);
        for (std::size_t i = 0; i < entry->count; ++i) {
            values.push_back(entry->value(i));
        }
    }
    return values;
}

std::vector<double> TiffDirectory::fractions(std::uint16_t tag) const {
    constexpr std::uint32_t kRational = 5;
    constexpr std::size_t kBytes = 8;
    const Bytes entry = stored(tag);
    const std::size_t count = read_integer(entry, 4, 4, little_endian_);
    const Bytes numbers = tail(tiff_, read_integer(entry, 8, 4, little_endian_));
    std::vector<double> values;
    if (read_integer(entry, 2, 2, little_endian_) == kRational && count <= numbers.size() / kBytes) {
        for (std::size_t at = 0; at < count * kBytes; at += kBytes) {
            values.push_back(static_cast<double>(read_integer(numbers, at, 4, little_endian_)) /
                             read_integer(numbers, at + 4, 4, little_endian_));
        }
    }
    return values;
}

Bytes TiffDirectory::bytes(std::uint16_t tag) const noexcept {
    constexpr std::uint32_t kByte = 1;
    constexpr std::uint32_t kUndefined = 7;
    constexpr std::size_t kInPlace = 4;
    const Bytes entry = stored(tag);
    const std::uint32_t type = read_integer(entry, 2, 2, little_endian_);
    const std::size_t count = read_integer(entry, 4, 4, little_endian_);
    const Bytes values = count <= kInPlace ? tail(entry, 8) : tail(tiff_, read_integer(entry, 8, 4, little_endian_));
    return (type == kByte || type == kUndefined) && count <= values.size() ? values.first(count) : Bytes();
}

}  // namespace spdl
