#pragma once

#include <cstddef>
#include <vector>

#include "core/bytes.h"

namespace spdl {

// A part of a file: `size` bytes from `begin` on.
struct ByteRange {
    std::size_t begin;
    std::size_t size;
};

// Checks the chunks of a PNG up to the end of its pixels: their names and checksums, which FFmpeg ignores. What follows
// does not matter. Throws MediaError. Returns the chunks to be left out: colour profiles that are damaged, for which
// FFmpeg would refuse the picture.
std::vector<ByteRange> check_png_chunks(Bytes png);

}  // namespace spdl
