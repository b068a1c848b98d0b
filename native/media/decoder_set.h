#pragma once

#include <memory>
#include <vector>

#include "media/backend.h"

namespace spdl {

// The decoders of one thread: one of each backend.
class DecoderSet {
  public:
    DecoderSet();

    struct Choice {
        const Backend& backend;
        Decoder& decoder;
    };

    // Returns the first backend that decodes the image into memory of this kind; if the options name a backend, only
    // that one. Throws MediaError if there is none.
    Choice choose(const EncodedImage& image, const DemuxOptions& demux, const DecodeOptions& decode,
                  MemoryKind memory = MemoryKind::kHost);

  private:
    std::vector<std::unique_ptr<Decoder>> decoders_;  // In the order of backends().
};

}  // namespace spdl
