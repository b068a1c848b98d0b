#pragma once

#include <cstdint>
#include <memory>

#include "core/files.h"
#include "ffmpeg/libav.h"

namespace spdl {

// Continues the times of a video where its file's times begin again. Files of some containers can be concatenated (`cat
// a.ts b.ts`), and recorders set their clock back: what comes later is shown later.
class JoinedTimes {
  public:
    // `looks_up` says whether the demuxer looks up in packets which are key frames.
    explicit JoinedTimes(bool looks_up) : looks_up_(looks_up) {}

    // If the clock was set back, moves the times of the stream's next packet after the earlier packets' times.
    void follow(AVPacket& packet, const AVStream& stream);

    // Returns whether there was such a place.
    [[nodiscard]] bool joined() const { return joined_; }

  private:
    [[nodiscard]] bool begins_anew(const AVPacket& packet, const AVStream& stream) const;

    bool looks_up_;
    std::int64_t decoded_ = AV_NOPTS_VALUE;  // Of the packets since the last such place, as the file says: the last
    std::int64_t shown_ = AV_NOPTS_VALUE;    // time of decoding and the latest of showing,
    std::int64_t end_ = AV_NOPTS_VALUE;      // and when the last frame ends, which may also be one before that place.
    std::int64_t before_ = AV_NOPTS_VALUE;   // When the last packet is shown.
    std::int64_t moved_ = 0;
    bool waits_ = false;  // Whether a frame is not shown yet that does not say when it will be.
    bool joined_ = false;
};

// Returns a source without what lies between the frames of concatenated files: tags (ID3, APE) in MPEG audio, and
// headers in FLAC. FFmpeg takes them, and the frames beside them, for damage. They are found where the bytes are read
// one after the other, so that reading on must begin before them. Other files are read unchanged.
std::unique_ptr<ByteSource> frames_of_joined(std::unique_ptr<ByteSource> source);

// Returns whether a segment index of MP4 (sidx) says other times than the fragments of a track that it leads to.
// libavformat seeks by the one and reads on by the other: if they differ, it skips fragments. The position in the file,
// of that size, does not change.
[[nodiscard]] bool has_wrong_segment_index(AVIOContext& input, std::int64_t size, int track);

// Throws MediaError if a reader of a file in that format would take raw pictures of a stream, which was added to it,
// for another pixel format.
void check_raw_pictures(const AVOutputFormat& format, const AVStream& stream);

}  // namespace spdl
