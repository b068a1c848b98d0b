#pragma once

#include <memory>

#include "core/byte_source.h"

namespace spdl {

// Returns a source without what lies between the frames of files that were put one behind the other: tags (ID3, APE) in
// MPEG audio, and headers in FLAC. FFmpeg takes them, and the frames beside them, for damage. They are found where the
// bytes are read one after the other, so that reading on must begin before them. Other files are read as they are.
std::unique_ptr<ByteSource> frames_of_joined(std::unique_ptr<ByteSource> source);

}  // namespace spdl
