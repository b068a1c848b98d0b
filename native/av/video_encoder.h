#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "av/encode_options.h"
#include "av/stream_encoder.h"
#include "ffmpeg/filter_chain.h"
#include "ffmpeg/libav.h"

namespace spdl {

// Encodes pictures of one size and pixel format. One thread at a time. All errors are MediaErrors.
class VideoEncoder {
  public:
    VideoEncoder(const VideoEncodeOptions& options, const AVOutputFormat& format);

    // Takes the next frames, and appends the packets that are finished. Times are rounded to the frame rate; a frame
    // without a time is shown after the last one.
    void add(const std::vector<FramePtr>& frames, AVRational time_base, std::vector<PacketPtr>& packets);

    void flush(std::vector<PacketPtr>& packets) { encoder_->flush(packets); }

    [[nodiscard]] const StreamEncoder& encoder() const { return *encoder_; }

  private:
    void check(const AVFrame& frame) const;
    FramePtr convert(const AVFrame& given);
    std::int64_t time_of(const AVFrame& frame, AVRational time_base);

    VideoEncodeOptions options_;
    AVPixelFormat given_;
    AVPixelFormat taken_;
    std::optional<StreamEncoder> encoder_;
    std::optional<FilterChain> chain_;
    std::int64_t next_time_ = 0;
    bool started_ = false;
};

}  // namespace spdl
