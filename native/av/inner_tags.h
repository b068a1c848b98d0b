#pragma once

#include <memory>

#include "core/byte_source.h"

namespace spdl {

// Returns a source without the tags (ID3, APE) that lie between frames of MPEG audio, as they do in MP3 files that were
// put one behind the other: FFmpeg takes them, and the frame behind them, for damage. They are found where the frames
// are read one after the other, so that reading on must begin before them. Other files are read as they are.
std::unique_ptr<ByteSource> without_inner_tags(std::unique_ptr<ByteSource> source);

}  // namespace spdl
