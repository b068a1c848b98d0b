#pragma once

#include "core/channels.h"
#include "core/geometry.h"
#include "core/row_sink.h"
#include "ffmpeg/libav.h"

namespace spdl {

// Converts frames of any pixel format to rows of three-byte pixels; alpha is dropped, and of samples of 16 bits the
// lower half, as libpng and Pillow do. One thread at a time.
class PixelConverter {
  public:
    // Those within `box` go to the sink. Throws MediaError where libswscale cannot convert the format.
    void convert(const AVFrame& frame, const Box& box, Channels channels, RowSink& sink);

  private:
    void prepare(const AVFrame& frame, AVPixelFormat to);
    const AVFrame& narrow(const AVFrame& frame);

    SwsContextPtr context_;
    FramePtr converted_;
    FramePtr narrowed_;
};

}  // namespace spdl
