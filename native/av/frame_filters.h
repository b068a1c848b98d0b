#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "av/scale_description.h"
#include "av/scale_stage.h"
#include "ffmpeg/filter_chain.h"
#include "ffmpeg/libav.h"

namespace spdl {

// The filters of a description, as FilterChain runs them, with the same frames. What most users do with video, scaling
// it to packed RGB, is done without FFmpeg's filters where that is faster. Take all finished frames before the next one
// is put in. One thread at a time. All errors are MediaErrors.
class FrameFilters {
  public:
    FrameFilters(const AVFrame& first, AVRational time_base, AVRational frame_rate, const std::string& description);

    // Returns whether a frame has the form that the filters were made for.
    [[nodiscard]] bool takes(const AVFrame& frame) const;

    // Puts in the next frame; null says that there are no more.
    void add(FramePtr frame);

    // Returns the next finished frame; null if there is none yet, or after the end.
    FramePtr get();

    // Returns the unit of the finished frames' times.
    [[nodiscard]] AVRational time_base() const;

    // Returns the form of finished sound: a frame without samples. Pictures have none.
    [[nodiscard]] FramePtr sound_form() const { return first_->sound_form(); }

  private:
    void split(const AVFrame& first, AVRational time_base, AVRational frame_rate, const std::string& description);
    FramePtr next();
    void add_after(FramePtr made);
    void end_after();

    std::string description_;
    ScaleDescription parts_;
    std::optional<FilterChain> first_;  // All of the filters, or those before the scaling.
    std::optional<ScaleStage> stage_;   // None if `first_` has all of the filters.
    std::optional<FilterChain> after_;
    FramePtr waiting_;            // For the scaling, if nothing is before it.
    std::int64_t scaled_to_ = 0;  // The time of the last frame that was scaled.
    bool ends_ = false;
};

}  // namespace spdl
