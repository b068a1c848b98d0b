#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/bytes.h"

namespace spdl {

// A directory of a TIFF file: a list of entries. Nothing outside the bytes is read, whatever they say. A file must not
// have several entries with one tag; if it does, the last one counts. FFmpeg, too, takes the last sizes of strips, and
// fails if another tag comes twice.
class TiffDirectory {
  public:
    // Returns the first directory of a file; nothing if the bytes are no TIFF.
    static std::optional<TiffDirectory> first(Bytes tiff) noexcept;

    // Returns another directory of the same file.
    [[nodiscard]] TiffDirectory at(std::uint32_t offset) const noexcept { return {tiff_, offset, little_endian_}; }

    // Returns the offset of the next directory; 0 if there is none.
    [[nodiscard]] std::uint32_t next() const noexcept;

    [[nodiscard]] bool has(std::uint16_t tag) const noexcept { return find(tag).has_value(); }

    // Returns the value of an entry that has exactly one: an integer of any size, with a sign or without. What is below
    // zero becomes large.
    [[nodiscard]] std::optional<std::uint32_t> integer(std::uint16_t tag) const noexcept;

    // Returns whether the file ends before all entries.
    [[nodiscard]] bool truncated() const noexcept;

    // Returns an entry as it lies in the file: its tag, its type, its number of values, and these or where they are;
    // empty if there is none.
    [[nodiscard]] Bytes stored(std::uint16_t tag) const noexcept;

    // Returns all integers of an entry; none if there is no such entry, or if its values are no integers
    // without a sign.
    [[nodiscard]] std::vector<std::uint32_t> integers(std::uint16_t tag) const;

    // Returns all fractions of an entry; none if there is no such entry, or if it goes beyond the file.
    [[nodiscard]] std::vector<double> fractions(std::uint16_t tag) const;

    // Returns the value of an entry of bytes; empty if there is none, or if it goes beyond the file.
    [[nodiscard]] Bytes bytes(std::uint16_t tag) const noexcept;

  private:
    struct Entry {
        Bytes stored;
        Bytes values;  // From the first to the end of the file.
        std::size_t count;
        std::size_t size;  // Of one value, in bytes; 0 if the values are no integers.
        bool has_sign;
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
