#pragma once

#include "core/bytes.h"
#include "ffmpeg/demux.h"

namespace spdl {

// FFmpeg inflates data beside the picture without any limit: a megabyte may become a gigabyte beside a picture of a few
// pixels, which no limit of pixels forbids. These functions refuse such data.

// Checks a container for QuickTime's compressed headers. Throws MediaError.
void check_container(Bytes bytes);

// Checks an image before it is decoded for the compressed texts and profiles of PNG. Throws MediaError.
void check_metadata(const ImagePacket& image);

}  // namespace spdl
