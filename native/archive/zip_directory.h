#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"

namespace spdl {

enum class ZipMethod : std::uint16_t { kStored = 0, kDeflated = 8, kZstd = 93 };

// A member as the directory at the end of the archive describes it.
struct ZipMember {
    // Bytes of the archive, in UTF-8 if `utf8`, else in code page 437.
    std::string_view name;
    bool utf8 = false;
    bool encrypted = false;
    std::uint16_t method = 0;
    std::uint32_t crc = 0;
    std::size_t compressed_size = 0;
    std::size_t size = 0;
    // The start of its local header, and the start of the next member or the directory.
    std::size_t begin = 0;
    std::size_t end = 0;
};

// The members of a zip archive in memory, zip64 and data descriptors included.
class ZipDirectory {
  public:
    // Reads the directory at the end of `archive`, and nothing else. Throws FormatError.
    explicit ZipDirectory(Bytes archive);

    [[nodiscard]] const std::vector<ZipMember>& members() const { return members_; }

    // Returns the stored bytes of a member. Throws FormatError, without naming the member, if its local header
    // contradicts the directory, or if it reaches into what follows.
    [[nodiscard]] Bytes content(const ZipMember& member) const;

  private:
    void set_ends(std::size_t directory);

    Bytes archive_;
    std::vector<ZipMember> members_;
};

}  // namespace spdl
