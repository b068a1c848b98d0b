#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/bytes.h"

namespace spdl {

// Returns the size of the largest result for an input of `size` bytes.
std::size_t deflate_bound(std::size_t size);
std::size_t zstd_bound(std::size_t size);

// Compress at the libraries' default levels, and return the size of the result. `into` has the size above.
std::size_t deflate(Bytes data, std::span<std::uint8_t> into);
std::size_t zstd(Bytes data, std::span<std::uint8_t> into);

// Inflates one stream of bytes into exactly as many bytes as expected. Each thread keeps its own state. These throw
// FormatError if the stream is damaged or has another length.
void inflate_deflate(Bytes compressed, std::span<std::uint8_t> into);
void inflate_zstd(Bytes compressed, std::span<std::uint8_t> into);

// Returns whether deflate can make so much out of so little at all. If not, the header lies, and no memory may be taken
// for it.
bool deflate_can_make(std::size_t size, std::size_t compressed_size);

// Returns the checksum of zip archives for bytes that follow others with the checksum `before`.
std::uint32_t crc32(Bytes data, std::uint32_t before = 0);

}  // namespace spdl

struct ZSTD_DCtx_s;

namespace spdl {

// Inflates zstd frames that come in pieces. Throws FormatError if they are damaged.
class ZstdStream {
  public:
    ZstdStream();

    // How much one step took and made. If it took all and made nothing, it needs more input.
    struct Step {
        std::size_t taken;
        std::size_t made;
    };

    Step inflate(Bytes compressed, std::span<std::uint8_t> into);

    // Returns whether the input may end here: between two frames.
    [[nodiscard]] bool between_frames() const { return between_frames_; }

  private:
    struct Free {
        void operator()(ZSTD_DCtx_s* held) const;
    };
    std::unique_ptr<ZSTD_DCtx_s, Free> context_;
    bool between_frames_ = true;
};

}  // namespace spdl
