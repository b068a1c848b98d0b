#pragma once

#include "ffmpeg/libav.h"
#include "image/load/image_reader.h"
#include "media/load_options.h"

namespace spdl {

// The reader's image as a frame of its own, in the pixel format of the options and without gaps between rows. Throws
// MediaError.
FramePtr resized_picture(ImageReader& reader, const LoadOptions& options, ThreadScratch& scratch);

}  // namespace spdl
