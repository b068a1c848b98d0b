#include "core/file_parts.h"

#include <libdeflate.h>

#include <algorithm>
#include <iterator>

#include "core/errors.h"

namespace spdl {
namespace {

constexpr std::size_t kHead = 8;  // Size and type.
constexpr std::size_t kChecksum = 4;

// Names are of letters. Pillow takes these, too.
bool may_be_in_name(char character) {
    return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
           (character >= '0' && character <= '9') || character == '_';
}

// The name of a profile is followed by a null character and the number of the method.
void check_profile(Bytes data) {
    const auto name_end = std::ranges::find(data, std::uint8_t{0});
    if (data.end() - name_end >= 2 && name_end[1] != 0) {
        refuse_png("its colour profile is compressed by the unknown method " + std::to_string(name_end[1]));
    }
}

// Returns the size of the type BYTE, SHORT or LONG; 0 for all others.
std::size_t integer_bytes(std::uint32_t type) {
    constexpr std::size_t kSizes[] = {0, 1, 0, 2, 4};
    return type < std::size(kSizes) ? kSizes[type] : 0;
}

}  // namespace

std::optional<PngChunk> read_png_chunk(Bytes bytes, std::size_t at) noexcept {
    if (at > bytes.size() || bytes.size() - at < kHead) {
        return std::nullopt;
    }
    const Bytes chunk = bytes.subspan(at);
    const std::size_t size = read_integer(chunk, 0, 4, false);
    const std::size_t present = std::min(size, chunk.size() - kHead);
    return PngChunk{{reinterpret_cast<const char*>(chunk.data()) + 4, 4},
                    chunk.subspan(kHead, present),
                    at,
                    at + kHead + size + kChecksum,
                    read_integer(chunk, kHead + size, kChecksum, false),
                    size + kChecksum <= chunk.size() - kHead};
}

void check_png_chunk(const PngChunk& chunk) {
    const std::string_view type = chunk.type;
    if (!std::ranges::all_of(type, may_be_in_name)) {
        refuse_png("a chunk has no name of four letters");
    }
    if (!chunk.complete) {
        throw MediaError("cannot decode the PNG: the data is truncated: it ends within a chunk " + std::string(type));
    }
    if (libdeflate_crc32(libdeflate_crc32(0, type.data(), type.size()), chunk.data.data(), chunk.data.size()) !=
        chunk.checksum) {
        refuse_png("the checksum of a chunk " + std::string(type) + " is wrong");
    }
    if (type == "iCCP") {
        check_profile(chunk.data);
    }
}

void refuse_png(const std::string& reason) {
    throw MediaError("cannot decode the PNG: the data is damaged: " + reason);
}

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

bool TiffDirectory::is_sorted() const noexcept {
    const std::size_t size = layout_.entry_bytes();
    if (count_ > entries_.size() / size) {
        return false;
    }
    for (std::size_t i = 1; i < count_; ++i) {
        if (layout_.read(entries_, i * size, 2) <= layout_.read(entries_, (i - 1) * size, 2)) {
            return false;
        }
    }
    return true;
}

std::uint32_t TiffDirectory::type(std::uint16_t tag) const noexcept {
    const std::optional<Entry> entry = find(tag);
    return entry ? entry->type : 0;
}

Bytes TiffDirectory::values(const Entry& entry, std::size_t size) const noexcept {
    const Bytes here = entry.count <= entry.in_place.size() / size
                           ? entry.in_place
                           : tail(tiff_, layout_.read(entry.in_place, 0, layout_.offset_bytes()));
    return entry.count <= here.size() / size ? here.first(entry.count * size) : Bytes();
}

std::optional<std::uint32_t> TiffDirectory::integer(std::uint16_t tag) const noexcept {
    const std::optional<Entry> entry = find(tag);
    const std::size_t size = entry ? integer_bytes(entry->type) : 0;
    if (size == 0 || entry->count != 1) {
        return std::nullopt;
    }
    return static_cast<std::uint32_t>(layout_.read(entry->in_place, 0, size));
}

std::optional<std::vector<std::uint32_t>> TiffDirectory::integers(std::uint16_t tag) const {
    const std::optional<Entry> entry = find(tag);
    const std::size_t size = entry ? integer_bytes(entry->type) : 0;
    const Bytes bytes = size == 0 ? Bytes() : values(*entry, size);
    if (bytes.empty()) {
        return std::nullopt;
    }
    std::vector<std::uint32_t> found;
    found.reserve(entry->count);
    for (std::size_t at = 0; at < bytes.size(); at += size) {
        found.push_back(static_cast<std::uint32_t>(layout_.read(bytes, at, size)));
    }
    return found;
}

Bytes TiffDirectory::bytes(std::uint16_t tag) const noexcept {
    constexpr std::uint32_t kByte = 1;
    constexpr std::uint32_t kUndefined = 7;
    const std::optional<Entry> entry = find(tag);
    if (!entry || (entry->type != kByte && entry->type != kUndefined)) {
        return {};
    }
    return values(*entry, 1);
}

}  // namespace spdl
