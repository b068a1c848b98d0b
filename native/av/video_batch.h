#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "av/packets.h"
#include "av/video_index.h"
#include "core/buffer.h"
#include "core/bytes.h"
#include "media/options.h"

namespace spdl {

// Which frames of a video make a clip.
struct ClipChoice {
    std::size_t num_frames = 1;  // At most.
    bool spread = false;         // Whether they are spread over the window evenly.
    double rate = 0;             // Otherwise: that many in a second; 0 for those that follow each other.
    std::size_t step = 1;        // Otherwise: every so manieth one.
};

// Returns whether frames after the last one of the index could be among those that are chosen.
bool may_reach_behind(const VideoIndex& index, const Stream& stream, const TimeWindow& window, const ClipChoice& choice,
                      std::size_t chosen);

// Returns the frames within the window, in ascending order. There may be fewer than asked for, and a frame that is
// shown for long may come more than once.
std::vector<std::size_t> choose_frames(const VideoIndex& index, const Stream& stream, const TimeWindow& window,
                                       const ClipChoice& choice);

// A video: the file at `path`, as FileSource takes it, or bytes in memory if `path` has no data.
struct VideoInput {
    std::string_view path;
    Bytes bytes;
    TimeWindow window;
};

struct VideoBatchOptions {
    const DemuxOptions& demux;
    const DecodeOptions& decode;
    ClipChoice choice;
    int num_threads = 1;
    bool keep_failed = false;  // Keep the places of videos that fail, with zeros.
};

struct VideoBatch {
    Buffer clips;  // Without memory if nothing could be loaded and no places are kept.
    std::vector<std::size_t> lengths;
    std::vector<std::pair<std::size_t, std::string>> failures;
};

// Loads a clip of every video into one array, whose size the options give. Clips that are shorter are continued with
// zeros. Failed videos are left out, unless their places are kept.
VideoBatch load_video_batch(const std::vector<VideoInput>& inputs, const LoadOptions& options,
                            const VideoBatchOptions& batch, const Memory* memory);

}  // namespace spdl
