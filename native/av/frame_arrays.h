#pragma once

#include <memory>
#include <span>

#include "av/frame_reader.h"
#include "core/buffer.h"

namespace spdl {

// Returns frames as one array, made in `memory` if there is one: (N, H, W, C) and the like for pictures; for sound
// (channels, samples) if each channel has its own plane, otherwise (samples, channels).
Buffer to_array(const FrameList& list, const Memory* memory);

// Returns the arrays of several lists, which must be alike, along a new first axis.
Buffer to_array(std::span<const FrameList> lists, const Memory* memory);

}  // namespace spdl
