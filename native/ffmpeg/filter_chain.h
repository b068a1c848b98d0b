#pragma once

#include <cstdint>
#include <string>

#include "core/geometry.h"
#include "ffmpeg/ffmpeg_log.h"
#include "ffmpeg/libav.h"

namespace spdl {

// The filters that lie between a decoder and whoever takes its frames: one input, one output, both pictures or both
// sound. One thread at a time. All errors are MediaErrors.
class FilterChain {
  public:
    // Makes the filters of `description`, which is in FFmpeg's own syntax, for frames like `first`. A frame rate of 0/1
    // is not known. Errors quote `whole`: the filters may be a part of it.
    FilterChain(const AVFrame& first, AVRational time_base, AVRational frame_rate, const std::string& description,
                const std::string& whole);
    FilterChain(const AVFrame& first, AVRational time_base, AVRational frame_rate, const std::string& description)
        : FilterChain(first, time_base, frame_rate, description, description) {}

    // Returns whether a frame has the form that the chain was made for.
    [[nodiscard]] bool takes(const AVFrame& frame) const;

    // Puts in the next frame; null says that there are no more.
    void add(FramePtr frame);

    // Says that no more frames come, and that the last one ends at this time.
    void end(std::int64_t time);

    // Returns whether more frames would have no effect: the end was said, or the filters have refused a frame.
    [[nodiscard]] bool full() const { return full_; }

    // Returns the next finished frame; null if there is none yet, or after the end.
    FramePtr get();

    // Returns the unit of the finished frames' times.
    [[nodiscard]] AVRational time_base() const;

    // Returns how many finished frames there are in a second; 0/1 if that is not known.
    [[nodiscard]] AVRational frame_rate() const;

    // Returns the form of finished sound: a frame without samples.
    [[nodiscard]] FramePtr sound_form() const;

    // Returns the size of pictures behind the first filter of a kind, such as "scale".
    [[nodiscard]] Size size_behind(const std::string& filter) const;

  private:
    void add_source(const AVFrame& first, AVRational time_base, AVRational frame_rate, const FfmpegLog& log);

    std::string what_;
    FilterGraphPtr graph_;
    AVFilterContext* source_ = nullptr;
    AVFilterContext* sink_ = nullptr;
    FramePtr form_;  // The first frame without its data.
    bool full_ = false;
};

// Runs one frame through the filters of `description`, which is in FFmpeg's own syntax. Throws MediaError.
FramePtr filter_frame(const AVFrame& frame, AVRational time_base, const std::string& description);

// Throws MediaError if a description cannot be understood. Whether its filters take the frames shows with the first
// one.
void check_filters(const std::string& description);

// Returns the first filter in a description that the FFmpeg in use does not have; "" if it has them all.
std::string missing_filter(const std::string& description);

}  // namespace spdl
