#pragma once

#include "image/load/thread_scratch.h"
#include "media/decoder_set.h"

namespace spdl {

// An image that one of the thread's decoders has opened. A thread has only one at a time.
class OpenImage {
  public:
    // The image is turned upright if that is asked for. Throws MediaError.
    OpenImage(const EncodedImage& image, const DemuxOptions& demux, const DecodeOptions& decode, bool upright,
              ThreadScratch& scratch);
    OpenImage(const OpenImage&) = delete;
    OpenImage& operator=(const OpenImage&) = delete;
    ~OpenImage() { choice_.decoder.close(); }

    [[nodiscard]] const ImageShape& shape() const { return shape_; }
    [[nodiscard]] const Backend& backend() const { return choice_.backend; }
    [[nodiscard]] Decoder& decoder() const { return choice_.decoder; }

  private:
    // As it is stored.
    OpenImage(const EncodedImage& image, const DemuxOptions& demux, const DecodeOptions& decode,
              ThreadScratch& scratch);

    DecoderSet::Choice choice_;
    ImageShape shape_;
};

}  // namespace spdl
