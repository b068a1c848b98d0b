#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "av/h264_frame_numbers.h"
#include "av/stream.h"

namespace spdl {

// Finds the frames of H.264 and HEVC that build on pictures which are missing, as packets were lost. FFmpeg's decoders
// make something of them without a word. A lost picture that no other builds on is not noticed, nor is a lost
// key frame of H.264. And finds the pictures of JPEG that end too early, and packets of FFV1, MLP and TrueHD whose
// checksums differ from what is in them.
class LossWatch {
  public:
    explicit LossWatch(const std::shared_ptr<const Stream>& stream);

    // Takes the next packet that is decoded.
    void see(const AVPacket& packet);

    // Takes the last line that FFmpeg has logged while it decoded that packet.
    void hear(const std::string& line);

    // Returns whether the frame that is shown at a time may build on a lost one. It is asked once for each.
    bool is_doubtful(std::int64_t time) { return doubtful_.erase(time) > 0; }

    // Says that the next packet is from another place.
    void reset();

  private:
    [[nodiscard]] bool is_watched() const;

    std::shared_ptr<const Stream> stream_;
    std::optional<H264FrameNumbers> numbers_;
    std::set<std::int64_t> doubtful_;         // When the frames are shown that may build on a lost one.
    std::int64_t packet_ = AV_NOPTS_VALUE;    // When the last packet is shown,
    std::int64_t last_key_ = AV_NOPTS_VALUE;  // and the last key frame.
    bool has_key_ = false;                    // Whether there was a key frame.
    bool lost_ = false;                       // Whether something was lost since the last key frame,
    bool lost_before_ = false;                // or between that and the one before.
};

}  // namespace spdl
