#pragma once

#include <avif/avif.h>

#include <memory>

#include "core/aligned_buffer.h"
#include "media/packed_decoder.h"

namespace spdl {

// Decodes AVIF by libavif: of a sequence the first picture, of a progressive one the best. What is outside the clean
// aperture is cut off; the picture is not turned.
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
