#pragma once

#include "ffmpeg/libav.h"
#include "image/row_sink.h"

namespace spdl {

// Converts frames of any pixel format to rows of packed RGB; alpha is dropped. One thread at a time.
class Rgb24Converter {
  public:
    // Throws MediaError where libswscale cannot convert the format.
    void convert(const AVFrame& frame, RowSink& sink);

  private:
    void prepare(const AVFrame& frame);

    SwsContextPtr context_;
    FramePtr rgb_;
};

}  // namespace spdl
