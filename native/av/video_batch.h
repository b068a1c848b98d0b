#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "av/clip_choice.h"
#include "core/buffer.h"
#include "core/bytes.h"
#include "media/decode_options.h"
#include "media/demux_options.h"
#include "media/load_options.h"
#include "media/time_window.h"

namespace spdl {

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
