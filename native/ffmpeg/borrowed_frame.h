#pragma once

#include <memory>

#include "core/bytes.h"
#include "ffmpeg/libav.h"

namespace spdl {

// Gives a frame memory of somebody else's, which libav does not write to. The last frame that uses it drops the owner,
// in any thread.
void borrow(AVFrame& frame, std::shared_ptr<const void> owner, Bytes memory);

// Returns whether the frame has such memory. Filters may read a little beyond the end of a frame, which is safe only in
// libav's own.
bool is_borrowed(const AVFrame& frame);

// Returns a frame with the same content in libav's own memory.
FramePtr copy_frame(const AVFrame& frame);

}  // namespace spdl
