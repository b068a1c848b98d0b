#pragma once

#include "core/file_reader.h"
#include "ffmpeg/libav.h"
#include "ffmpeg/rgb24.h"
#include "image/geometry.h"
#include "image/jpeg_decoder.h"
#include "image/resizer.h"

namespace spdl {

// What one thread needs to read, decode and resize images, kept so that the next image allocates nothing.
struct ThreadScratch {
    FileReader file;
    JpegDecoder jpeg;
    Rgb24Converter converter;
    Resizer resizer;
};

ThreadScratch& thread_scratch();

// Decodes one encoded image to rows of packed RGB: a JPEG through libjpeg-turbo, anything else through FFmpeg.
class ImageReader {
  public:
    // An image that FFmpeg has decoded.
    ImageReader(FramePtr frame, ThreadScratch& scratch);

    // Throws MediaError. `bytes` must stay in place for as long as the reader is used.
    ImageReader(Bytes bytes, ThreadScratch& scratch);

    [[nodiscard]] Size size() const { return size_; }

    // Decodes the image; once.
    void read(RowSink& sink);

  private:
    ThreadScratch& scratch_;
    Size size_;
    FramePtr frame_;  // The decoded image, where it is no JPEG.
};

}  // namespace spdl
