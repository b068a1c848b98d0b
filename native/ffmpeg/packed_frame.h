#pragma once

#include <memory>

#include "media/frame.h"

namespace spdl {

// A FrameMaker. If the elements of the format are bytes, the frame can become an array as it is.
std::unique_ptr<Frame> make_packed_frame(Size size, const ArrayFormat& format);

// A StoredFrameMaker.
std::unique_ptr<Frame> make_stored_frame(Size size, const char* pixel_format);

}  // namespace spdl
