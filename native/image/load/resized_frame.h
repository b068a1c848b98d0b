#pragma once

#include <memory>

#include "image/load/thread_scratch.h"
#include "media/decoder.h"
#include "media/frame.h"
#include "media/load_options.h"

namespace spdl {

// Decodes and resizes the open image of `decoder` into a frame of its own, in the pixel format of the options and
// without gaps between rows. Throws MediaError.
std::unique_ptr<Frame> resized_frame(Decoder& decoder, const ImageShape& shape, const LoadOptions& options,
                                     FrameMaker make_frame, ThreadScratch& scratch);

}  // namespace spdl
