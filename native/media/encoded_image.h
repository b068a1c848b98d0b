#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/bytes.h"

namespace spdl {

class Packet;

// An image as a decoder gets it: the bytes of a file, or the packet that a demuxer made of them.
struct EncodedImage {
    Bytes bytes;                          // Of the packet, if there is one.
    std::string_view codec;               // FFmpeg's name, if a demuxer has found it; then no other demuxer is needed.
    const Packet* packet = nullptr;       // From the demuxer of a backend.
    std::optional<std::uint64_t> page{};  // Where the directory of a TIFF's page is; without one, the file's picture.
};

}  // namespace spdl
