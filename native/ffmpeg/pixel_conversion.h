#pragma once

#include "core/geometry.h"
#include "core/sinks.h"
#include "ffmpeg/libav.h"

namespace spdl {

// Decoders pass on numbers of the file as colour spaces, even if there is no such colour space. Takes those for not
// specified.
void forget_unknown_colors(AVFrame& frame);

// The factors of a frame's colour matrix, as sws_getCoefficients returns them, and its range.
struct FrameColors {
    const int* matrix;
    bool full_range;
};

// Returns the colours of a frame. Missing properties are interpreted as the ffmpeg command does.
FrameColors frame_colors(const AVFrame& frame);

// Has a conversion of frames like this one follow their colours.
void follow_colors(SwsContext& context, const AVFrame& frame);

// Returns whether pixels of one format can be copied into the other without a loss: channels or bytes in another order,
// gray as three equal channels, or a new alpha channel, which is opaque.
bool repacks(AVPixelFormat from, AVPixelFormat to);

// Returns the format with the same channels of 8 bits, for pixels of 16 bits a sample: red, green and blue, or gray,
// with or without alpha. AV_PIX_FMT_NONE for all others.
AVPixelFormat narrow_format(AVPixelFormat format);

// Copies the pixels into a frame of the same size, whose format is the same or one that they can be repacked to. An
// 8-bit sample gets the upper half of a 16-bit one.
void repack(const AVFrame& from, AVFrame& to);

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
