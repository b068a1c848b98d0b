#pragma once

#include <functional>

#include "core/bytes.h"
#include "ffmpeg/libav.h"

namespace spdl {

// Calls `look` for each unit of a packet of H.264 or HEVC, until it returns true. The units have their lengths in
// front, as MP4 and Matroska store them, or a start code. With start codes a unit goes on to the end of the packet.
void visit_units(Bytes packet, const AVCodecParameters& video, const std::function<bool(Bytes)>& look);

// Returns whether a packet of HEVC holds a part of a picture, and not only parameters of those that follow.
bool has_picture(const AVPacket& packet, const AVCodecParameters& video);

}  // namespace spdl
