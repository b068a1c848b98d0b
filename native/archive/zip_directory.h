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
    // Where its local header begins, and where the next member or the directory does.
    std::size_t begin = 0;
    std::size_t end = 0;
};

// The members of a zip archive in memory, zip64 and data descriptors included.
class ZipDirectory {
  public:
    // Reads the directory at the end of `archive`, and nothing else. Throws FormatError.
    explicit ZipDirectory(Bytes archive);

    [[nodiscard]] const std::vector<ZipMember>& members() const { return members_; }

    // The bytes of a member as they are stored. Throws FormatError, without saying which member it is, where its local
    // header says otherwise than the directory, or where it reaches into what follows.
    [[nodiscard]] Bytes content(const ZipMember& member) const;

  private:
    void set_ends(std::size_t directory);

    Bytes archive_;
    std::vector<ZipMember> members_;
};

}  // namespace spdl
