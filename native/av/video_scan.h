#pragma once

#include <string>

#include "av/container.h"
#include "av/video_index.h"
#include "media/decode_options.h"

namespace spdl {

// What there is of a video, up to where its file is damaged or cut off.
struct VideoScan {
    VideoIndex index;
    std::string damage;  // What reading on said; "" for a whole file.
};

// Reads all packets of a stream. If the file ends early, the frames that can then not be decoded are hidden. Throws
// MediaError if there is no frame before the damage.
VideoScan scan_video(Container& container, int stream, const DecodeOptions& options);

}  // namespace spdl
