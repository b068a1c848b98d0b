#pragma once

#include "core/file_reader.h"
#include "core/geometry.h"
#include "ffmpeg/decode.h"
#include "ffmpeg/demux.h"
#include "ffmpeg/libav.h"
#include "ffmpeg/pixel_converter.h"
#include "image/jpeg/jpeg_decoder.h"
#include "image/plan/image_plan.h"
#include "image/resize/resizer.h"

namespace spdl {

// What one thread needs to read, decode and resize images, kept so that the next image allocates nothing.
struct ThreadScratch {
    FileReader file;
    JpegDecoder jpeg;
    PixelConverter converter;
    Resizer resizer;
};

ThreadScratch& thread_scratch();

// Decodes one encoded image to rows of three-byte pixels: a JPEG through libjpeg-turbo, anything else through FFmpeg.
class ImageReader {
  public:
    // An image that FFmpeg has decoded.
    ImageReader(FramePtr frame, const Orientation& orientation, ThreadScratch& scratch);

    // Throws MediaError. `bytes` must stay in place for as long as the reader is used. The image is turned upright
    // where that is asked for.
    ImageReader(Bytes bytes, const DemuxOptions& demux, const DecodeOptions& decode, bool upright,
                ThreadScratch& scratch);

    [[nodiscard]] const ImageShape& shape() const { return shape_; }

    // What FFmpeg has decoded; empty where libjpeg-turbo is about to.
    [[nodiscard]] const FramePtr& frame() const { return frame_; }

    // Begins to decode a part of the image at a fraction of its size.
    DecodedRows begin(int eighths, const Box& wanted, Channels channels);

    // Decodes it; once.
    void read(RowSink& sink);

    // Whether the image was kept although its data is truncated.
    [[nodiscard]] bool truncated() const { return !frame_ && scratch_.jpeg.truncated(); }

  private:
    ThreadScratch& scratch_;
    ImageShape shape_;
    FramePtr frame_;  // The decoded image, where it is no JPEG.
    Box wanted_;
    Channels channels_ = Channels::kRgb;
};

}  // namespace spdl
