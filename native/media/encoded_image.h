#pragma once

#include <string_view>

#include "core/bytes.h"

namespace spdl {

class Packet;

// An image as a decoder gets it: a file's bytes, or what a demuxer made of them.
struct EncodedImage {
    Bytes bytes;
    std::string_view codec;          // By FFmpeg's name, if a demuxer found it out; then no other demuxer is needed.
    const Packet* packet = nullptr;  // From the demuxer of a backend, in place of bytes.
};

}  // namespace spdl
