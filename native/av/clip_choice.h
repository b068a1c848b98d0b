#pragma once

#include <cstddef>
#include <vector>

#include "av/stream.h"
#include "av/video_index.h"
#include "media/time_window.h"

namespace spdl {

// Which frames of a video make a clip.
struct ClipChoice {
    std::size_t num_frames = 1;  // At most.
    bool spread = false;         // Whether they are spread over the window evenly.
    double rate = 0;             // Otherwise: so many in a second; 0 for those that follow each other.
    std::size_t step = 1;        // Otherwise: every so manieth one.
};

// Returns whether frames behind the last one of the index could be among those that are chosen.
bool may_reach_behind(const VideoIndex& index, const Stream& stream, const TimeWindow& window, const ClipChoice& choice,
                      std::size_t chosen);

// Returns the frames within the window, in ascending order. There may be fewer than asked for, and a frame that is
// shown for long may come more than once.
std::vector<std::size_t> choose_frames(const VideoIndex& index, const Stream& stream, const TimeWindow& window,
                                       const ClipChoice& choice);

}  // namespace spdl
