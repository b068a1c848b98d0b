#pragma once

#include <string>

#include "image/plan/image_plan.h"
#include "media/load_options.h"

namespace spdl {

// What a request asks for, in the syntax of FFmpeg's filters, as get_video_filter_desc writes it.
std::string ffmpeg_filters(const ImageShape& shape, const Request& request, const View& view);

}  // namespace spdl
