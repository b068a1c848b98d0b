#pragma once

#include "image/small/bmp_header.h"
#include "media/packed_decoder.h"

namespace spdl {

// Decodes BMP as Pillow does.
class BmpDecoder final : public PackedDecoder {
  protected:
    [[nodiscard]] bool takes(ImageFormat format) const noexcept override { return format == ImageFormat::kBmp; }
    PackedShape describe(Bytes bytes, std::int64_t max_pixels) override;
    void decode_packed(const PackedRegion& region, std::uint8_t* to, std::size_t row_bytes) override;
    void forget() noexcept override;

  private:
    Bytes bytes_;
    BmpHeader header_;
    AlignedBuffer indices_;  // Of run lengths.
};

}  // namespace spdl
