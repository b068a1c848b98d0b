#pragma once

#include <string>

#include "media/crop_and_flip.h"
#include "media/image_shape.h"
#include "media/load_options.h"

namespace spdl {

// The filters that do what the options ask for, in the syntax of FFmpeg's filters, as get_video_filter_desc writes it.
std::string filter_description(const ImageShape& shape, const LoadOptions& options, const CropAndFlip& crop);

}  // namespace spdl
