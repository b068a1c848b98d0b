#pragma once

#include <memory>
#include <span>

#include "core/buffer.h"
#include "media/frame.h"

namespace spdl {

// The frame as one array: in `memory` if there is one, otherwise without a copy if the frame already is an array.
Buffer frame_to_array(std::unique_ptr<Frame> frame, const Memory* memory);

// The frames, all of one size and pixel format, one after the other along a new first axis.
Buffer frames_to_array(std::span<const Frame* const> frames, const Memory* memory);

}  // namespace spdl
