#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"

namespace spdl {

// One chunk of a PNG. If the file ends within it, `data` is what there is.
struct PngChunk {
    std::string_view type;
    Bytes data;
    std::size_t begin = 0;
    std::size_t end = 0;  // Where the next chunk begins.
    std::uint32_t checksum = 0;
    bool complete = true;
};

// Returns the chunk that begins at `at`, or nothing if the file ends before its data.
std::optional<PngChunk> read_png_chunk(Bytes bytes, std::size_t at) noexcept;

// Throws MediaError unless Pillow would take the chunk, too: for its name, its end, its checksum, or the method that
// compresses a colour profile.
void check_png_chunk(const PngChunk& chunk);

// Throws the MediaError for a damaged PNG.
[[noreturn]] void refuse_png(const std::string& reason);

// The order of the bytes of a TIFF file, and the sizes of its parts: a BigTIFF has wider ones.
struct TiffLayout {
    bool little_endian = true;
    bool big = false;

    // Returns what the header says; nothing if the bytes are not TIFF.
    static std::optional<TiffLayout> of(Bytes tiff) noexcept;

    [[nodiscard]] std::size_t header_bytes() const noexcept { return big ? 16 : 8; }
    [[nodiscard]] std::size_t count_bytes() const noexcept { return big ? 8 : 2; }
    [[nodiscard]] std::size_t entry_bytes() const noexcept { return big ? 20 : 12; }

    // The size of an offset, and of the number of an entry's values, which lie in its place if they are not larger.
    [[nodiscard]] std::size_t offset_bytes() const noexcept { return big ? 8 : 4; }

    // Returns an integer of any size; 0 if the bytes end before it does.
    [[nodiscard]] std::uint64_t read(Bytes bytes, std::size_t offset, std::size_t size) const noexcept;

    // Returns the place of the first directory.
    [[nodiscard]] std::uint64_t first_directory(Bytes tiff) const noexcept {
        return read(tiff, header_bytes() - offset_bytes(), offset_bytes());
    }
};

// A directory of a TIFF file: a list of entries. Nothing outside the bytes is read, whatever they say. A file must not
// have several entries with one tag; if it does, the last one counts.
class TiffDirectory {
  public:
    // Returns the first directory of a file; nothing if the bytes are not TIFF.
    static std::optional<TiffDirectory> first(Bytes tiff) noexcept;

    // Returns the directory at an offset.
    static std::optional<TiffDirectory> at(Bytes tiff, std::uint64_t offset) noexcept;

    static constexpr std::uint32_t kShort = 3;  // The type of integers of 16 bits without a sign.

    [[nodiscard]] bool has(std::uint16_t tag) const noexcept { return find(tag).has_value(); }

    // Returns whether all entries are in the file, and in the order of their tags, each of which occurs once.
    [[nodiscard]] bool is_sorted() const noexcept;

    // Returns the type of an entry; 0 if none exists.
    [[nodiscard]] std::uint32_t type(std::uint16_t tag) const noexcept;

    // Returns the place of the next directory, 0 if this is the last one; nothing if this one goes beyond the file.
    [[nodiscard]] std::optional<std::uint64_t> next() const noexcept;

    // Returns the value of an entry that has exactly one integer of 32 bits at most, without a sign.
    [[nodiscard]] std::optional<std::uint32_t> integer(std::uint16_t tag) const noexcept;

    // Returns the values of an entry of such integers; nothing if none exists, or if it goes beyond the file.
    [[nodiscard]] std::optional<std::vector<std::uint32_t>> integers(std::uint16_t tag) const;

    // Returns the value of an entry of bytes; empty if none exists, or if it goes beyond the file.
    [[nodiscard]] Bytes bytes(std::uint16_t tag) const noexcept;

  private:
    struct Entry {
        std::uint32_t type;
        std::uint64_t count;
        Bytes in_place;
    };

    TiffDirectory(Bytes tiff, const TiffLayout& layout, std::uint64_t offset) noexcept;

    [[nodiscard]] std::optional<Entry> find(std::uint16_t tag) const noexcept;

    // Returns where the values of an entry are, of so many bytes each; empty if it goes beyond the file.
    [[nodiscard]] Bytes values(const Entry& entry, std::size_t size) const noexcept;

    Bytes tiff_;
    TiffLayout layout_;
    Bytes entries_;  // From the first to the end of the file.
    std::uint64_t count_;
};

// The segments of a JPEG, from the one after its first marker on.
class JpegSegments {
  public:
    struct Segment {
        std::uint8_t marker = 0;  // Its second byte.
        Bytes content;
    };

    explicit JpegSegments(Bytes jpeg) : rest_(tail(jpeg, 2)) {}

    // Returns the next segment; nothing if no segment follows, or its end is missing.
    std::optional<Segment> next() {
        while (rest_.size() >= 4 && rest_[0] == 0xff) {
            const std::uint8_t marker = rest_[1];
            if (marker == 0xff) {  // A fill byte.
                rest_ = rest_.subspan(1);
                continue;
            }
            const std::size_t length = read_integer(rest_, 2, 2, false);
            if (length < 2 || length > rest_.size() - 2) {
                break;
            }
            const Segment segment{marker, rest_.subspan(4, length - 2)};
            rest_ = rest_.subspan(2 + length);
            return segment;
        }
        return std::nullopt;
    }

    // Returns what follows the last segment.
    [[nodiscard]] Bytes rest() const { return rest_; }

  private:
    Bytes rest_;
};

// The sizes in the header of a WAV file, and the real ones, in bytes.
struct WavSizes {
    std::uint64_t riff = 0;     // Of the file without the first 8 bytes, as it says.
    std::uint64_t data = 0;     // Of the sound, as it says.
    std::uint64_t file = 0;     // Of the file.
    std::uint64_t place = 0;    // Where the file says the size of the sound in 64 bits; 0 if it does not.
    std::uint64_t present = 0;  // From the beginning of the sound to the end of the file.
    std::uint64_t used = 0;     // Where the file says how many bits of each sample are used; 0 if all are.
    std::uint16_t bits = 0;     // Of each sample, if not all are used.
};

// Returns whether a size comes from a program that writes to a pipe and cannot know it: 0, or about the largest of 31,
// 32 or 64 bits, some of them minus the bytes in front of the sound.
inline bool is_open_size(std::uint64_t size) {
    constexpr std::uint64_t kOpenOf31 = 0x7FFFF000;
    constexpr std::uint64_t kBitsOf31 = 0x7FFFFFFF;
    constexpr std::uint64_t kOpenOf32 = 0xFFFFF000;
    constexpr std::uint64_t kBitsOf32 = 0xFFFFFFFF;
    constexpr std::uint64_t kBitsOf63 = 0x7FFFFFFFFFFFFFFF;
    return size == 0 || (size >= kOpenOf31 && size <= kBitsOf31) || (size >= kOpenOf32 && size <= kBitsOf32) ||
           size >= kBitsOf63;
}

// Returns how many bytes of sound a file has to have: more than there are if it was cut off.
inline std::uint64_t bytes_of_sound(const WavSizes& sizes) {
    constexpr std::uint64_t kBeforeSize = 8;
    // A writer that knew the size of the file knew that it has no sound.
    if (sizes.data <= sizes.present && (sizes.data > 0 || sizes.riff + kBeforeSize == sizes.file)) {
        return sizes.data;
    }
    // Some programs count the header as sound. Such a file has the size that it says.
    const bool counts_header = sizes.data == sizes.file || sizes.data + kBeforeSize == sizes.file;
    return is_open_size(sizes.data) || (counts_header && sizes.riff <= sizes.file) ? sizes.present : sizes.data;
}

}  // namespace spdl
