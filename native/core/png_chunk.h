#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

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

}  // namespace spdl
