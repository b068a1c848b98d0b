#pragma once

#include "core/bytes.h"
#include "ffmpeg/demux.h"

namespace spdl {

// FFmpeg inflates what nobody asked for, whatever comes out: a megabyte becomes a gigabyte beside a picture of a few
// pixels, which no limit of pixels forbids. What is found here is refused instead.

// Of a container: QuickTime's compressed headers. Throws MediaError.
void check_container(Bytes bytes);

// Of what is about to be decoded: the compressed texts and profiles of PNG. Throws MediaError.
void check_metadata(const ImagePacket& image);

}  // namespace spdl
