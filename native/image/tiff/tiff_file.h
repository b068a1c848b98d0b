#pragma once

#include <tiffio.h>

#include <cstdint>
#include <optional>
#include <string>

#include "core/bytes.h"
#include "core/file_parts.h"

namespace spdl {

// A TIFF in memory, opened by libtiff, at the picture to decode: the page whose directory is named, or the first one,
// or if that is marked as a smaller version, the one below it.
class TiffFile {
  public:
    // `max_pixels` bounds the memory that libtiff allocates for itself. Throws MediaError.
    TiffFile(Bytes bytes, std::optional<std::uint64_t> page, std::int64_t max_pixels);
    ~TiffFile();
    TiffFile(const TiffFile&) = delete;
    TiffFile& operator=(const TiffFile&) = delete;

    [[nodiscard]] TIFF* get() const noexcept { return tiff_; }
    [[nodiscard]] Bytes bytes() const noexcept { return memory_.bytes; }

    // Returns the value of a tag of one number, or what it is by default; `otherwise` if libtiff has neither.
    template <typename Value>
    [[nodiscard]] Value value(std::uint32_t tag, Value otherwise) const {
        Value found{};
        return TIFFGetFieldDefaulted(tiff_, tag, &found) == 1 ? found : otherwise;
    }

    // Returns whether libtiff knows what the picture says about a tag.
    [[nodiscard]] bool has(std::uint32_t tag) const {
        std::uint64_t room = 0;
        return TIFFGetField(tiff_, tag, &room, &room, &room) == 1;
    }

    // Returns the stored directory of the picture, whatever libtiff makes of it.
    [[nodiscard]] std::optional<TiffDirectory> directory() const;

    // Returns whether the data of a JPEG inside were damaged.
    [[nodiscard]] bool damaged() const noexcept { return memory_.damaged; }

    // Throws the MediaError about the picture, with what libtiff said.
    [[noreturn]] void fail(const std::string& what) const;

    // libtiff's input and its messages.
    struct Memory {
        static constexpr std::size_t kWords = 256;

        Bytes bytes;
        std::uint64_t at = 0;
        char words[kWords] = "";
        bool damaged = false;
    };

  private:
    void go_to(std::uint64_t page);
    void go_below();

    Memory memory_;
    TIFF* tiff_ = nullptr;
};

// Throws the MediaError for a picture that is not read because its pixels are so.
[[noreturn]] void refuse_tiff(const std::string& pixels);

// The most bytes of a strip or tile.
std::int64_t most_tiff_bytes(std::int64_t max_pixels);

}  // namespace spdl
