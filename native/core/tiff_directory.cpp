#include "core/tiff_directory.h"

#include <iterator>

namespace spdl {

std::optional<TiffLayout> TiffLayout::of(Bytes tiff) noexcept {
    constexpr std::uint64_t kClassic = 42;
    constexpr std::uint64_t kBig = 43;
    if (tiff.size() < 8 || tiff[0] != tiff[1] || (tiff[0] != 'I' && tiff[0] != 'M')) {
        return std::nullopt;
    }
    TiffLayout layout{tiff[0] == 'I', false};
    const std::uint64_t version = layout.read(tiff, 2, 2);
    layout.big = version == kBig;
    return layout.big || version == kClassic ? std::optional(layout) : std::nullopt;
}

std::uint64_t TiffLayout::read(Bytes bytes, std::size_t offset, std::size_t size) const noexcept {
    if (size <= 4) {
        return read_integer(bytes, offset, size, little_endian);
    }
    const Bytes rest = tail(bytes, offset);
    const std::uint64_t first = read_integer(rest, 0, 4, little_endian);
    const std::uint64_t second = read_integer(rest, 4, 4, little_endian);
    return little_endian ? second << 32U | first : first << 32U | second;
}

TiffDirectory::TiffDirectory(Bytes tiff, const TiffLayout& layout, std::uint64_t offset) noexcept
    : tiff_(tiff),
      layout_(layout),
      entries_(offset < tiff.size() ? tail(tiff, offset + layout.count_bytes()) : Bytes()),
      count_(offset < tiff.size() ? layout.read(tiff, offset, layout.count_bytes()) : 0) {}

std::optional<TiffDirectory> TiffDirectory::first(Bytes tiff) noexcept {
    const std::optional<TiffLayout> layout = TiffLayout::of(tiff);
    return layout ? at(tiff, layout->first_directory(tiff)) : std::nullopt;
}

std::optional<TiffDirectory> TiffDirectory::at(Bytes tiff, std::uint64_t offset) noexcept {
    const std::optional<TiffLayout> layout = TiffLayout::of(tiff);
    return layout ? std::optional(TiffDirectory(tiff, *layout, offset)) : std::nullopt;
}

std::optional<TiffDirectory::Entry> TiffDirectory::find(std::uint16_t tag) const noexcept {
    const std::size_t size = layout_.entry_bytes();
    const std::size_t offset_bytes = layout_.offset_bytes();
    std::optional<Entry> found;
    Bytes rest = entries_;
    for (std::uint64_t i = 0; i < count_ && rest.size() >= size; ++i, rest = rest.subspan(size)) {
        if (layout_.read(rest, 0, 2) == tag) {
            found = Entry{static_cast<std::uint32_t>(layout_.read(rest, 2, 2)), layout_.read(rest, 4, offset_bytes),
                          rest.subspan(4 + offset_bytes, offset_bytes)};
        }
    }
    return found;
}

std::optional<std::uint64_t> TiffDirectory::next() const noexcept {
    const std::size_t size = layout_.entry_bytes();
    if (count_ > entries_.size() / size || entries_.size() - count_ * size < layout_.offset_bytes()) {
        return std::nullopt;
    }
    return layout_.read(entries_, count_ * size, layout_.offset_bytes());
}

std::optional<std::uint32_t> TiffDirectory::integer(std::uint16_t tag) const noexcept {
    constexpr std::size_t kSizes[] = {0, 1, 0, 2, 4};  // Of the types BYTE, SHORT and LONG.
    const std::optional<Entry> entry = find(tag);
    const std::size_t size = entry && entry->type < std::size(kSizes) ? kSizes[entry->type] : 0;
    if (size == 0 || entry->count != 1) {
        return std::nullopt;
    }
    return static_cast<std::uint32_t>(layout_.read(entry->in_place, 0, size));
}

Bytes TiffDirectory::bytes(std::uint16_t tag) const noexcept {
    constexpr std::uint32_t kByte = 1;
    constexpr std::uint32_t kUndefined = 7;
    const std::optional<Entry> entry = find(tag);
    if (!entry || (entry->type != kByte && entry->type != kUndefined)) {
        return {};
    }
    const Bytes values = entry->count <= entry->in_place.size()
                             ? entry->in_place
                             : tail(tiff_, layout_.read(entry->in_place, 0, layout_.offset_bytes()));
    return entry->count <= values.size() ? values.first(entry->count) : Bytes();
}

}  // namespace spdl
