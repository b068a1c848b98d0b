#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "av/frame_reader.h"
#include "core/bytes.h"
#include "ffmpeg/libav.h"

namespace spdl {

// Frames that show an array of somebody else's, without a copy. libav does not write to it. `owner` keeps the array in
// place; the last frame that shows it drops the owner, in any thread.

// Returns the pictures that lie one after the other in the array, without gaps. The first is shown at `time`, in units
// of one frame. Throws MediaError if the array is not of that many bytes.
FrameList show_pictures(std::shared_ptr<const void> owner, Bytes array, const std::string& pixel_format, int width,
                        int height, int count, AVRational frame_rate, std::int64_t time);

// Returns the sound in the array: one channel after the other if the format has a plane for each, otherwise with the
// channels of each moment side by side. It is heard from `time` on, in samples. Throws MediaError.
FrameList show_sound(std::shared_ptr<const void> owner, Bytes array, const std::string& sample_format, int channels,
                     int samples, int sample_rate, std::int64_t time);

}  // namespace spdl
