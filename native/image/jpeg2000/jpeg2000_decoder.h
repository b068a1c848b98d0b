#pragma once

#include <optional>

#include "image/jpeg2000/component_rows.h"
#include "image/jpeg2000/jpeg2000_header.h"
#include "image/jpeg2000/openjpeg_codec.h"
#include "media/packed_decoder.h"

namespace spdl {

// Decodes JPEG 2000 by OpenJPEG.
class Jpeg2000Decoder final : public PackedDecoder {
  protected:
    [[nodiscard]] bool takes(ImageFormat format) const noexcept override { return format == ImageFormat::kJpeg2000; }
    PackedShape describe(Bytes bytes, std::int64_t max_pixels) override;
    [[nodiscard]] Box decodable(int eighths, const Box& wanted) const override;
    void decode_packed(const PackedRegion& region, std::uint8_t* to, std::size_t row_bytes) override;
    void forget() noexcept override { codec_.reset(); }

  private:
    Jpeg2000Header header_;
    Jpeg2000Colors colors_ = Jpeg2000Colors::kPlain;
    std::optional<OpenjpegCodec> codec_;
};

}  // namespace spdl
