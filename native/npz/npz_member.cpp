#include "npz/npz_member.h"

#include <string>

#include "archive/inflate.h"
#include "core/format_error.h"
#include "core/quoted.h"

namespace spdl {
namespace {

void check_crc(const ZipMember& member, Bytes bytes) {
    if (crc32(bytes) != member.crc) {
        throw FormatError("its " + std::to_string(bytes.size()) +
                          " bytes are damaged: their checksum is not the one in the "
                          "zip directory");
    }
}

}  // namespace

void check_budget(const ZipDirectory& directory, std::size_t most) {
    std::size_t sum = 0;
    for (const ZipMember& member : directory.members()) {
        if (member.method != static_cast<std::uint16_t>(ZipMethod::kStored) &&
            __builtin_add_overflow(sum, member.size, &sum)) {
            sum = SIZE_MAX;
        }
    }
    if (sum > most) {
        throw FormatError("the compressed members of the npz archive inflate to " + std::to_string(sum) +
                          " bytes, more than the `max_uncompressed_bytes` of " + std::to_string(most) +
                          ": raise that if you trust the archive");
    }
}

std::string describe(const ZipMember& member) {
    return "member " + quoted(member.name) + " at byte " + std::to_string(member.begin);
}

bool is_stored(const ZipMember& member) {
    if (member.encrypted) {
        throw FormatError("it is encrypted, which cannot be read");
    }
    switch (static_cast<ZipMethod>(member.method)) {
        case ZipMethod::kStored:
            return true;
        case ZipMethod::kDeflated:
        case ZipMethod::kZstd:
            return false;
    }
    throw FormatError("it is compressed by method " + std::to_string(member.method) +
                      "; stored members and those compressed by deflate (8) or zstd (93) can be read");
}

Bytes stored_bytes(const ZipDirectory& directory, const ZipMember& member, bool verify) {
    if (member.size != member.compressed_size) {
        throw FormatError("it is stored, but its " + std::to_string(member.compressed_size) + " bytes are said to be " +
                          std::to_string(member.size));
    }
    const Bytes bytes = directory.content(member);
    if (verify) {
        check_crc(member, bytes);
    }
    return bytes;
}

void check_claim(const ZipMember& member) {
    const bool deflated = member.method == static_cast<std::uint16_t>(ZipMethod::kDeflated);
    if (deflated && !deflate_can_make(member.size, member.compressed_size)) {
        throw FormatError("its " + std::to_string(member.compressed_size) + " bytes cannot inflate to the " +
                          std::to_string(member.size) + " that it is said to have");
    }
}

void inflate_member(const ZipDirectory& directory, const ZipMember& member, std::span<std::uint8_t> into) {
    const Bytes compressed = directory.content(member);
    if (member.method == static_cast<std::uint16_t>(ZipMethod::kDeflated)) {
        inflate_deflate(compressed, into);
    } else {
        inflate_zstd(compressed, into);
    }
    check_crc(member, into);
}

}  // namespace spdl
