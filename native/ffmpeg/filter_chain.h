#pragma once

#include <cstdint>
#include <string>

#include "ffmpeg/ffmpeg_log.h"
#include "ffmpeg/libav.h"

namespace spdl {

// The filters that lie between a decoder and whoever takes its frames: one input, one output, both pictures or both
// sound. One thread at a time. All errors are MediaErrors.
class FilterChain {
  public:
    // Makes the filters of `description`, which is in FFmpeg's own syntax, for frames like `first`. A frame rate of 0/1
    // is not known.
    FilterChain(const AVFrame& first, AVRational time_base, AVRational frame_rate, const std::string& description);

    // Returns whether a frame has the form that the chain was made for.
    [[nodiscard]] bool takes(const AVFrame& frame) const;

    // Puts in the next frame; null says that there are no more.
    void add(FramePtr frame);

    // Returns the next finished frame; null if there is none yet, or after the end.
    FramePtr get();

    // Returns the unit of the finished frames' times.
    [[nodiscard]] AVRational time_base() const;

  private:
    void add_source(const AVFrame& first, AVRational time_base, AVRational frame_rate, const FfmpegLog& log);

    std::string what_;
    FilterGraphPtr graph_;
    AVFilterContext* source_ = nullptr;
    AVFilterContext* sink_ = nullptr;
    FramePtr form_;  // The first frame without its data.
};

// Runs one frame through the filters of `description`, which is in FFmpeg's own syntax. Throws MediaError.
FramePtr filter_frame(const AVFrame& frame, AVRational time_base, const std::string& description);

// Throws MediaError if a description cannot be understood. Whether its filters take the frames shows with the first
// one.
void check_filters(const std::string& description);

// Returns the first filter in a description that the FFmpeg in use does not have; "" if it has them all.
std::string missing_filter(const std::string& description);

}  // namespace spdl
