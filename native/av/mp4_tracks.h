#pragma once

#include <cstdint>
#include <vector>

#include "av/file_peek.h"
#include "ffmpeg/libav.h"

namespace spdl {

// What the header of an MP4 file says of a track (ISO/IEC 14496-12).
struct Mp4Track {
    std::uint64_t id = 0;
    std::int64_t unit = 0;  // How many of its times are a second.
    // Where the parts begin that its edit list shows one after the other, in its own times; -1 stands for a pause.
    std::vector<std::int64_t> edits;
};

std::vector<Mp4Track> read_tracks(Peek& file);

// Returns how many parts of a track are shown, one after the other, as its edit list says, which may begin with a
// pause. libavformat has a part of the track shown in place of any other pause. A file of that size is left where it is
// being read.
[[nodiscard]] std::int64_t count_shown_parts(AVIOContext& input, std::int64_t size, int track);

}  // namespace spdl
