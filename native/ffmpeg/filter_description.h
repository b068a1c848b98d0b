#pragma once

#include <string>

#include "media/crop_and_flip.h"
#include "media/image_shape.h"
#include "media/load_options.h"

namespace spdl {

// Returns FFmpeg's filters for these options, in the syntax in which get_video_filter_desc writes them.
std::string filter_description(const ImageShape& shape, const LoadOptions& options, const CropAndFlip& crop);

}  // namespace spdl
