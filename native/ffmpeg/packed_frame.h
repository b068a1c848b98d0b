#pragma once

#include <memory>

#include "media/frame.h"

namespace spdl {

// Makes a frame of bytes without gaps between rows, which can become an array as it is.
std::unique_ptr<Frame> make_packed_frame(Size size, Channels channels);

}  // namespace spdl
