#pragma once

#include <memory>
#include <span>

#include "core/buffer.h"
#include "media/frame.h"

namespace spdl {

// Returns the frame as one array. It is made in `memory` if there is one; otherwise it is not copied if the frame
// already is an array.
Buffer frame_to_array(std::unique_ptr<Frame> frame, const Memory* memory);

// Returns the frames, which must have one size and pixel format, one after the other along a new first axis.
Buffer frames_to_array(std::span<const Frame* const> frames, const Memory* memory);

}  // namespace spdl
