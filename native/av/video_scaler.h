#pragma once

#include "core/channels.h"
#include "core/geometry.h"
#include "ffmpeg/libav.h"
#include "media/interpolation.h"

namespace spdl {

// Scales pictures and converts them to bytes of RGB, BGR or gray in one step, as FFmpeg's filters scale and format do
// with the same interpolation, without a filter graph. One thread at a time. All errors are MediaErrors.
class VideoScaler {
  public:
    // Returns the scaled picture, valid until the next call.
    const AVFrame& scale(const AVFrame& frame, Size size, Channels channels, Interpolation interpolation);

  private:
    void prepare(const AVFrame& frame, Size size, AVPixelFormat format, Interpolation interpolation);

    SwsContextPtr context_;
    FramePtr form_;  // What the context was made for.
    FramePtr scaled_;
    Interpolation interpolation_ = Interpolation::kBicubic;
};

}  // namespace spdl
