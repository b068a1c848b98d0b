#pragma once

#include "ffmpeg/libav.h"
#include "ffmpeg/tiff_picture.h"

namespace spdl {

// Returns the file as FFmpeg has to see it, so that it decodes this picture of it.
PacketPtr tiff_packet(const AVPacket& file, const TiffPicture& picture);

// Divides the colours of a decoded picture by its alpha, as Pillow does. Throws MediaError if the frame is not RGBA.
void divide_by_alpha(AVFrame& frame);

}  // namespace spdl
