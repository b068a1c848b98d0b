#pragma once

#include <vector>

#include "ffmpeg/input.h"
#include "ffmpeg/libav.h"
#include "media/demux_options.h"

namespace spdl {

// What must be known of the streams: everything, or of videos only what it takes to read and decode their packets. That
// is without the pixel format where the header does not name it.
enum class Probing { kAll, kPackets };

struct OpenFormat {
    FormatContextPtr context;
    std::vector<int> packets_in_index;  // Of each stream, those that the header's index tells.
};

// Opens a file for reading. `plain_wav` says whether it is a WAV file of samples. The input must live as long as the
// context. Files that name others are refused.
OpenFormat open_format(Input& input, const DemuxOptions& options, Probing probing, bool plain_wav);

// Returns whether a container has a header that names all streams, and an index of all packets in front of them or
// behind. Matroska may have both, but its demuxer finds out only at the end that a file was cut off.
bool has_index(const AVFormatContext& context);

}  // namespace spdl
