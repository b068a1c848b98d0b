#pragma once

#include <avif/avif.h>

#include <memory>

#include "core/buffer.h"
#include "media/decoder.h"

namespace spdl {

// Each frame of the data that a file calls one picture would be decoded, although a few bytes are a frame, and only one
// is shown. A picture has a frame for each of its layers (AV1 allows four), and an encoder may put hidden frames before
// them.
constexpr int kMostFrames = 8;

// Returns whether data of more frames were kept from the decoder of AV1 in this thread since the last call.
bool were_frames_refused() noexcept;

// Decodes AVIF by libavif: of a sequence the first picture, of a progressive one the best. Pixels outside the clean
// aperture are cut off; the picture is not turned.
class AvifDecoder final : public PackedDecoder {
  protected:
    [[nodiscard]] bool takes(ImageFormat format) const noexcept override { return format == ImageFormat::kAvif; }
    PackedShape describe(Bytes bytes, std::int64_t max_pixels) override;
    void decode_packed(const PackedRegion& region, std::uint8_t* to, std::size_t row_bytes) override;
    void forget() noexcept override;

  private:
    void check(avifResult result) const;

    struct Destroy {
        void operator()(avifDecoder* decoder) const noexcept { avifDecoderDestroy(decoder); }
    };
    std::unique_ptr<avifDecoder, Destroy> decoder_;
    Size coded_;
    Box aperture_;          // The part that is shown.
    AlignedBuffer pixels_;  // If that is not all.
};

}  // namespace spdl
