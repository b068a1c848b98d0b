#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/bounded_read.h"
#include "core/bytes.h"

namespace spdl {

// The order of the bytes of a TIFF file, and the sizes of its parts: a BigTIFF has wider ones.
struct TiffLayout {
    bool little_endian = true;
    bool big = false;

    // Returns what the header says; nothing if the bytes are no TIFF.
    static std::optional<TiffLayout> of(Bytes tiff) noexcept;

    [[nodiscard]] std::size_t header_bytes() const noexcept { return big ? 16 : 8; }
    [[nodiscard]] std::size_t count_bytes() const noexcept { return big ? 8 : 2; }
    [[nodiscard]] std::size_t entry_bytes() const noexcept { return big ? 20 : 12; }

    // The size of an offset, and of the number of an entry's values, which lie in its place if they are no larger.
    [[nodiscard]] std::size_t offset_bytes() const noexcept { return big ? 8 : 4; }

    // Returns an integer of any size; 0 if the bytes end before it does.
    [[nodiscard]] std::uint64_t read(Bytes bytes, std::size_t offset, std::size_t size) const noexcept;

    // Returns where the first directory is.
    [[nodiscard]] std::uint64_t first_directory(Bytes tiff) const noexcept {
        return read(tiff, header_bytes() - offset_bytes(), offset_bytes());
    }
};

// A directory of a TIFF file: a list of entries. Nothing outside the bytes is read, whatever they say. A file must not
// have several entries with one tag; if it does, the last one counts.
class TiffDirectory {
  public:
    // Returns the first directory of a file; nothing if the bytes are no TIFF.
    static std::optional<TiffDirectory> first(Bytes tiff) noexcept;

    // Returns the directory at an offset.
    static std::optional<TiffDirectory> at(Bytes tiff, std::uint64_t offset) noexcept;

    [[nodiscard]] bool has(std::uint16_t tag) const noexcept { return find(tag).has_value(); }

    // Returns where the next directory is, 0 if this is the last one; nothing if this one goes beyond the file.
    [[nodiscard]] std::optional<std::uint64_t> next() const noexcept;

    // Returns the value of an entry that has exactly one integer of 32 bits at most, without a sign.
    [[nodiscard]] std::optional<std::uint32_t> integer(std::uint16_t tag) const noexcept;

    // Returns the value of an entry of bytes; empty if there is none, or if it goes beyond the file.
    [[nodiscard]] Bytes bytes(std::uint16_t tag) const noexcept;

  private:
    struct Entry {
        std::uint32_t type;
        std::uint64_t count;
        Bytes in_place;
    };

    TiffDirectory(Bytes tiff, const TiffLayout& layout, std::uint64_t offset) noexcept;

    [[nodiscard]] std::optional<Entry> find(std::uint16_t tag) const noexcept;

    Bytes tiff_;
    TiffLayout layout_;
    Bytes entries_;  // From the first to the end of the file.
    std::uint64_t count_;
};

}  // namespace spdl
