#pragma once

#include <cstdint>
#include <deque>

#include "ffmpeg/libav.h"

namespace spdl {

// Sound that comes in frames of any length, and is taken out in frames of another. All of one form. The times are those
// of the samples: a gap between frames is found again between those taken out, but not within one.
class SampleQueue {
  public:
    // The time of the frame is in samples.
    void add(FramePtr frame);

    [[nodiscard]] std::int64_t size() const { return size_; }

    // Takes out that many samples, which must be there.
    FramePtr take(int count);

  private:
    std::deque<FramePtr> frames_;
    int used_ = 0;  // Samples of the first frame that were taken.
    std::int64_t size_ = 0;
};

}  // namespace spdl
