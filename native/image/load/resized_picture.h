#pragma once

#include "image/load/image_reader.h"
#include "media/frame.h"
#include "media/load_options.h"

namespace spdl {

// The reader's image as a frame of its own, in the pixel format of the options and without gaps between rows. Throws
// MediaError.
std::unique_ptr<Frame> resized_picture(ImageReader& reader, const LoadOptions& options, FrameMaker make_frame,
                                       ThreadScratch& scratch);

}  // namespace spdl
