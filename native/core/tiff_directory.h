#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/bytes.h"

namespace spdl {

// A directory of a TIFF file, a list of entries. Whatever the bytes are, nothing outside of them is read. Of several
// entries with one tag, which there must not be, the last counts: FFmpeg, too, takes the last sizes of strips, and
// fails where another tag comes twice.
class TiffDirectory {
  public:
    // The first one of a file; nothing where the bytes are no TIFF.
    static std::optional<TiffDirectory> first(Bytes tiff) noexcept;

    // Another one of the same file.
    [[nodiscard]] TiffDirectory at(std::uint32_t offset) const noexcept { return {tiff_, offset, little_endian_}; }

    // Where the next one is; 0 where there is none.
    [[nodiscard]] std::uint32_t next() const noexcept;

    [[nodiscard]] bool has(std::uint16_t tag) const noexcept { return find(tag).has_value(); }

    // The value of an entry that has one: an integer of any size.
    [[nodiscard]] std::optional<std::uint32_t> integer(std::uint16_t tag) const noexcept;

    // All integers of an entry; none where there is no such entry, or where it has others than that.
    [[nodiscard]] std::vector<std::uint32_t> integers(std::uint16_t tag) const;

  private:
    struct Entry {
        Bytes values;  // From the first to the end of the file.
        std::size_t count;
        std::size_t size;  // Of one, in bytes; 0 where they are no integers.
        bool little_endian;

        [[nodiscard]] std::uint32_t value(std::size_t index) const;
    };

    TiffDirectory(Bytes tiff, std::uint32_t offset, bool little_endian) noexcept;

    [[nodiscard]] std::optional<Entry> find(std::uint16_t tag) const noexcept;

    Bytes tiff_;
    Bytes entries_;  // From the first to the end of the file.
    std::size_t count_;
    bool little_endian_;
};

}  // namespace spdl
