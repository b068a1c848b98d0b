#pragma once

#include <string>

#include "core/bytes.h"
#include "core/geometry.h"

namespace spdl {

// What OpenJPEG does not tell before it decodes, or does not check.
struct Jpeg2000Header {
    bool has_boxes = false;  // A JP2, not the code alone.
    Box place;               // Of the picture on its grid.
    int channels = 0;        // Of its pixels, as a palette has them.
    int bits = 0;            // Of the deepest channel.
    std::uint32_t layers = 0;
    int halvings = 32;  // How often each part of it can be halved.
};

// Reads a file from its beginning to the header of its last tile. Throws MediaError if it claims more tiles than its
// bytes can hold, or tiny blocks, each of which would take memory, if tiles are missing, or if its two headers differ.
[[nodiscard]] Jpeg2000Header read_jpeg2000_header(Bytes file);

// Throws the MediaError of a file that cannot be decoded.
[[noreturn]] void refuse_jpeg2000(const std::string& reason);

}  // namespace spdl
