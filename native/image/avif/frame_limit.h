#pragma once

namespace spdl {

// Each frame of the data that a file calls one picture would be decoded, although a few bytes are a frame, and only one
// is shown. A picture has a frame for each of its layers, of which AV1 allows four, and an encoder may put hidden
// frames before them.
constexpr int kMostFrames = 8;

// Returns whether data of more frames were kept from the decoder of AV1 in this thread since the last call.
bool were_frames_refused() noexcept;

}  // namespace spdl
