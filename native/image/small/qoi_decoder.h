#pragma once

#include "media/packed_decoder.h"

namespace spdl {

// Decodes QOI as Pillow does. The mark at the end may be missing.
class QoiDecoder final : public PackedDecoder {
  protected:
    [[nodiscard]] bool takes(ImageFormat format) const noexcept override { return format == ImageFormat::kQoi; }
    PackedShape describe(Bytes bytes, std::int64_t max_pixels) override;
    void decode_packed(const PackedRegion& region, std::uint8_t* to, std::size_t row_bytes) override;
    void forget() noexcept override { bytes_ = {}; }

  private:
    Bytes bytes_;
};

}  // namespace spdl
