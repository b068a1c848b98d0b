#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <span>

#include "archive/archive.h"
#include "core/bytes.h"
#include "core/errors.h"

namespace spdl {
namespace {

constexpr std::uint32_t kEndMagic = 0x06054b50;
constexpr std::uint32_t kEnd64Magic = 0x06064b50;
constexpr std::uint32_t kLocator64Magic = 0x07064b50;
constexpr std::uint32_t kEntryMagic = 0x02014b50;
constexpr std::uint32_t kLocalMagic = 0x04034b50;

constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kEnd64Bytes = 56;
constexpr std::size_t kLocator64Bytes = 20;
constexpr std::size_t kEntryBytes = 46;
constexpr std::size_t kLocalBytes = 30;
constexpr std::size_t kMaxComment = 0xffff;

constexpr std::uint32_t kIn64 = 0xffffffff;
constexpr std::uint16_t kCountIn64 = 0xffff;

std::uint16_t u16(const std::uint8_t* bytes) {
    return load_le<std::uint16_t>(bytes);
}

std::uint32_t u32(const std::uint8_t* bytes) {
    return load_le<std::uint32_t>(bytes);
}

std::uint64_t u64(const std::uint8_t* bytes) {
    return load_le<std::uint64_t>(bytes);
}

std::string at(std::size_t offset) {
    return " at byte " + std::to_string(offset);
}

std::string_view text(const std::uint8_t* bytes, std::size_t size) {
    return {reinterpret_cast<const char*>(bytes), size};
}

// The place of the directory and the number of its members.
struct End {
    std::uint64_t count;
    std::uint64_t size;
    std::uint64_t offset;
    // The start of the records after the directory, where the directory has to end.
    std::size_t records;
};

// Returns the last record of the directory's end that goes up to `size`, or after which there are only zeros up to
// `size`. The last byte that is not zero lies before `used`.
std::optional<std::size_t> find_end(Bytes archive, std::size_t used) {
    const std::size_t first = used > kEndBytes + kMaxComment ? used - kEndBytes - kMaxComment : 0;
    for (std::size_t offset = std::min(used, archive.size() - kEndBytes) + 1; offset-- > first;) {
        const std::uint8_t* const record = archive.data() + offset;
        if (u32(record) == kEndMagic) {
            const std::size_t end = offset + kEndBytes + u16(record + 20);
            if (end >= used && end <= archive.size()) {
                return offset;
            }
        }
    }
    return std::nullopt;
}

// Returns the last record of the directory's end, whatever follows, as zipfile takes it: downloads and copies may add
// something to a file, or cut its comment.
std::optional<std::size_t> find_last_end(Bytes archive) {
    if (archive.size() < kEndBytes) {
        return std::nullopt;
    }
    const std::size_t reach = kEndBytes + kMaxComment;
    const std::size_t first = archive.size() > reach ? archive.size() - reach : 0;
    for (std::size_t offset = archive.size() - kEndBytes + 1; offset-- > first;) {
        if (u32(archive.data() + offset) == kEndMagic) {
            return offset;
        }
    }
    return std::nullopt;
}

std::size_t find_end(Bytes archive) {
    if (archive.size() >= kEndBytes) {
        if (const auto offset = find_end(archive, archive.size())) {
            return *offset;
        }
        // Zeros fill up the pages of shared memory and the blocks of some disks.
        const auto last = std::find_if(archive.rbegin(), archive.rend(), [](std::uint8_t byte) { return byte != 0; });
        if (const auto offset = find_end(archive, static_cast<std::size_t>(archive.rend() - last))) {
            return *offset;
        }
    }
    if (const auto offset = find_last_end(archive)) {
        return *offset;
    }
    throw FormatError("this is not a zip archive, or it is truncated: the " + std::to_string(archive.size()) +
                      " bytes have no zip directory in their last " + std::to_string(kEndBytes + kMaxComment));
}

// Returns where the directory's 64-bit end record begins, if there is a locator at `locator`.
std::optional<std::size_t> find_end64(Bytes archive, std::size_t locator) {
    if (locator < kEnd64Bytes) {
        return std::nullopt;
    }
    const std::size_t before = locator - kEnd64Bytes;
    const std::uint64_t said = u64(archive.data() + locator + 8);
    // It is directly before its locator, whatever offset the locator gives: there may be a program in front of the
    // archive.
    for (const std::uint64_t place : {said, std::uint64_t{before}}) {
        if (place <= before && u32(archive.data() + place) == kEnd64Magic) {
            return static_cast<std::size_t>(place);
        }
    }
    return std::nullopt;
}

End read_end(Bytes archive) {
    const std::size_t offset = find_end(archive);
    const std::uint8_t* const record = archive.data() + offset;
    End end{u16(record + 10), u32(record + 12), u32(record + 16), offset};
    bool several = u16(record + 4) != u16(record + 6) || u16(record + 8) != u16(record + 10);
    if (offset >= kLocator64Bytes && u32(record - kLocator64Bytes) == kLocator64Magic) {
        // A program that writes to a pipe may write the larger record before it knows whether it is needed.
        const bool needed = end.count == kCountIn64 || end.size == kIn64 || end.offset == kIn64;
        if (const std::optional<std::size_t> place = find_end64(archive, offset - kLocator64Bytes)) {
            const std::uint8_t* const record64 = archive.data() + *place;
            several = u32(record64 + 16) != u32(record64 + 20) || u64(record64 + 24) != u64(record64 + 32);
            end = {u64(record64 + 32), u64(record64 + 40), u64(record64 + 48), *place};
        } else if (needed) {
            throw FormatError("the zip64 archive is damaged or truncated: the end of its directory is missing before" +
                              at(offset - kLocator64Bytes));
        }
    }
    if (several) {
        throw FormatError("the zip archive is one of several parts, which cannot be read");
    }
    if (end.size > end.records || end.offset > end.records - end.size) {
        throw FormatError("the zip archive is damaged or truncated: its directory of " + std::to_string(end.size) +
                          " bytes" + at(end.offset) + " goes beyond its end" + at(end.records));
    }
    if (end.count > end.size / kEntryBytes) {
        throw FormatError("the zip archive is damaged: its directory says that it has " + std::to_string(end.count) +
                          " members, and there is room for " + std::to_string(end.size / kEntryBytes));
    }
    return end;
}

// Sizes and offset that do not fit into 32 bits: only those, in this order.
void read_extra64(std::span<const std::uint8_t> extra, const std::uint8_t* entry, ZipMember& member,
                  std::size_t place) {
    std::size_t offset = 0;
    while (extra.size() - offset >= 4) {
        const std::uint16_t id = u16(extra.data() + offset);
        const std::size_t size = u16(extra.data() + offset + 2);
        offset += 4;
        if (size > extra.size() - offset) {
            break;
        }
        if (id == 1) {
            const std::uint8_t* field = extra.data() + offset;
            const std::uint8_t* const end = field + size;
            const auto take = [&](std::uint32_t in32, std::size_t& value) {
                if (in32 == kIn64) {
                    if (end - field < 8) {
                        throw FormatError("the zip archive is damaged: a zip64 size is missing" + at(place));
                    }
                    value = static_cast<std::size_t>(u64(field));
                    field += 8;
                }
            };
            take(u32(entry + 24), member.size);
            take(u32(entry + 20), member.compressed_size);
            take(u32(entry + 42), member.begin);
            return;
        }
        offset += size;
    }
}

}  // namespace

ZipDirectory::ZipDirectory(Bytes archive) : archive_(archive) {
    const End end = read_end(archive);
    // Offsets count from where the archive began before something was put in front of it.
    const auto directory = static_cast<std::size_t>(end.records - end.size);
    const std::size_t shift = directory - static_cast<std::size_t>(end.offset);
    members_.reserve(static_cast<std::size_t>(end.count));
    std::size_t place = directory;
    while (true) {
        const std::uint8_t* const entry = archive.data() + place;
        const std::size_t index = members_.size();
        if (end.records - place < kEntryBytes || u32(entry) != kEntryMagic) {
            if (index >= end.count) {
                break;
            }
            throw FormatError("the zip archive is damaged: member " + std::to_string(index) + " of " +
                              std::to_string(end.count) + " is missing in its directory" + at(place));
        }
        const std::size_t name_size = u16(entry + 28);
        const std::size_t extra_size = u16(entry + 30);
        const std::size_t comment_size = u16(entry + 32);
        const std::size_t entry_size = kEntryBytes + name_size + extra_size + comment_size;
        if (entry_size > end.records - place) {
            throw FormatError("the zip archive is damaged: member " + std::to_string(index) +
                              " goes beyond the end of its directory" + at(place));
        }
        ZipMember& member = members_.emplace_back();
        const std::uint16_t flags = u16(entry + 8);
        member.name = text(entry + kEntryBytes, name_size);
        member.utf8 = (flags & 0x800) != 0;
        member.encrypted = (flags & 1) != 0;
        member.method = u16(entry + 10);
        member.crc = u32(entry + 16);
        member.compressed_size = u32(entry + 20);
        member.size = u32(entry + 24);
        member.begin = u32(entry + 42);
        if (extra_size >= 4) {
            read_extra64({entry + kEntryBytes + name_size, extra_size}, entry, member, place);
        }
        const std::size_t least = kLocalBytes + name_size;
        if (member.begin > directory - shift || member.compressed_size > directory - shift - member.begin ||
            least > directory - shift - member.begin - member.compressed_size) {
            throw FormatError("the zip archive is damaged or truncated: member " + quoted(member.name) + " of " +
                              std::to_string(member.compressed_size) + " bytes" + at(member.begin) +
                              " goes beyond the beginning of the directory" + at(directory));
        }
        member.begin += shift;
        place += entry_size;
    }
    // Some programs write the lower 16 bits of a large count.
    if ((members_.size() - end.count) % (kCountIn64 + 1U) != 0) {
        throw FormatError("the zip archive is damaged: its directory says that it has " + std::to_string(end.count) +
                          (end.count == 1 ? " member" : " members") + ", and has " + std::to_string(members_.size()));
    }
    set_ends(directory);
}

void ZipDirectory::set_ends(std::size_t directory) {
    const auto before = [](const ZipMember& left, const ZipMember& right) { return left.begin < right.begin; };
    const auto follow = [](ZipMember& member, std::size_t next) {
        member.end = next;
        if (kLocalBytes + member.name.size() + member.compressed_size > next - member.begin) {
            throw FormatError("the zip archive is damaged: member " + quoted(member.name) + at(member.begin) +
                              " overlaps with what begins" + at(next));
        }
    };
    if (std::is_sorted(members_.begin(), members_.end(), before)) {
        for (std::size_t index = 0; index < members_.size(); ++index) {
            follow(members_[index], index + 1 < members_.size() ? members_[index + 1].begin : directory);
        }
        return;
    }
    std::vector<std::size_t> order(members_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [&](std::size_t left, std::size_t right) { return before(members_[left], members_[right]); });
    for (std::size_t rank = 0; rank < order.size(); ++rank) {
        follow(members_[order[rank]], rank + 1 < order.size() ? members_[order[rank + 1]].begin : directory);
    }
}

Bytes ZipDirectory::content(const ZipMember& member) const {
    const std::uint8_t* const local = archive_.data() + member.begin;
    if (u32(local) != kLocalMagic) {
        throw FormatError("the zip archive is damaged: no local header lies" + at(member.begin));
    }
    const std::size_t name_size = u16(local + 26);
    const std::size_t lead = kLocalBytes + name_size + u16(local + 28);
    const std::size_t room = member.end - member.begin;
    if (lead > room || member.compressed_size > room - lead) {
        throw FormatError("the zip archive is damaged: its " + std::to_string(member.compressed_size) + " bytes" +
                          at(member.begin + lead) + " overlap with what begins" + at(member.end));
    }
    if (text(local + kLocalBytes, name_size) != member.name || u16(local + 8) != member.method) {
        throw FormatError("the zip archive is damaged: the local header" + at(member.begin) +
                          " gives another name or method than the directory");
    }
    return archive_.subspan(member.begin + lead, member.compressed_size);
}

}  // namespace spdl
