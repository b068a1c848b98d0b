#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "av/encode_options.h"
#include "av/sample_queue.h"
#include "av/stream_encoder.h"
#include "ffmpeg/filter_chain.h"
#include "ffmpeg/libav.h"

namespace spdl {

// Encodes sound of one form, in frames of any length. One thread at a time. All errors are MediaErrors.
class AudioEncoder {
  public:
    AudioEncoder(const AudioEncodeOptions& options, const AVOutputFormat& format);

    // Takes the next frames, and appends the packets that are finished. A frame without a time follows the last one.
    void add(const std::vector<FramePtr>& frames, AVRational time_base, std::vector<PacketPtr>& packets);

    void flush(std::vector<PacketPtr>& packets);

    // Returns how many samples each packet holds; 0 if that is free.
    [[nodiscard]] int frame_size() const;

    [[nodiscard]] const StreamEncoder& encoder() const { return *encoder_; }

  private:
    void check(const AVFrame& frame) const;
    [[nodiscard]] std::int64_t time_of(const AVFrame& frame, AVRational time_base) const;
    FramePtr prepare(const AVFrame& frame, AVRational time_base);

    AudioEncodeOptions options_;
    AVSampleFormat given_;
    AVSampleFormat taken_;
    std::optional<StreamEncoder> encoder_;
    std::optional<FilterChain> chain_;
    SampleQueue queue_;
    std::int64_t next_time_ = 0;  // The end of the frames so far, in samples.
    bool started_ = false;
};

}  // namespace spdl
