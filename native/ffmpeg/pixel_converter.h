#pragma once

#include "core/channels.h"
#include "core/geometry.h"
#include "core/row_sink.h"
#include "ffmpeg/libav.h"

namespace spdl {

// Converts frames of any pixel format to rows of three-byte pixels. Alpha is dropped, and so is the lower half of
// 16-bit samples, as in libpng and Pillow. One thread at a time.
class PixelConverter {
  public:
    // Passes the pixels within `box` to the sink. Throws MediaError if libswscale cannot convert the format.
    void convert(const AVFrame& frame, const Box& box, Channels channels, RowSink& sink);

  private:
    void prepare(const AVFrame& frame, AVPixelFormat to);
    const AVFrame& narrow(const AVFrame& frame);

    SwsContextPtr context_;
    FramePtr converted_;
    FramePtr narrowed_;
};

}  // namespace spdl
