#pragma once

#include <webp/demux.h>

#include <memory>

#include "media/packed_decoder.h"

namespace spdl {

// Decodes WebP by libwebp: the first picture of an animation, on its canvas. What lies beside it is transparent black.
class WebpDecoder final : public PackedDecoder {
  protected:
    [[nodiscard]] bool takes(ImageFormat format) const noexcept override { return format == ImageFormat::kWebp; }
    PackedShape describe(Bytes bytes, std::int64_t max_pixels) override;
    [[nodiscard]] Box decodable(int eighths, const Box& wanted) const override;
    void decode_packed(const PackedRegion& region, std::uint8_t* to, std::size_t row_bytes) override;
    void forget() noexcept override { demuxer_.reset(); }

  private:
    // Finds the only picture, or the first of an animation.
    void find_picture(Bytes bytes);

    // Decodes a part of the picture.
    void decode_part(const Box& part, const PackedFormat& format, std::uint8_t* to, std::size_t row_bytes) const;

    struct Delete {
        void operator()(WebPDemuxer* demuxer) const noexcept { WebPDemuxDelete(demuxer); }
    };
    std::unique_ptr<WebPDemuxer, Delete> demuxer_;
    Bytes picture_;
    Box place_;  // Of the picture on its canvas.
};

}  // namespace spdl
