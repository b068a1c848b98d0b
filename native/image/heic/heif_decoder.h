#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "image/heic/coded_picture.h"
#include "image/heic/heif_picture.h"
#include "media/packed_decoder.h"

namespace spdl {

// Decodes HEIF, whose pictures in HEVC are decoded by another.
class HeifDecoder final : public PackedDecoder {
  public:
    explicit HeifDecoder(std::unique_ptr<PictureDecoder> pictures) : pictures_(std::move(pictures)) {}

  protected:
    [[nodiscard]] bool takes(ImageFormat format) const noexcept override { return format == ImageFormat::kHeif; }
    PackedShape describe(Bytes bytes, std::int64_t max_pixels) override;
    [[nodiscard]] Box decodable(int eighths, const Box& wanted) const override;
    void decode_packed(const PackedRegion& region, std::uint8_t* to, std::size_t row_bytes) override;
    void forget() noexcept override;

  private:
    // Rows of packed pixels, which begin `row_bytes` apart.
    struct Rows {
        std::uint8_t* begin;
        std::size_t row_bytes;
    };

    // Decodes the tiles of which there are pixels in a part of a picture. Alpha has no colours.
    void decode_tiles(const TiledPicture& picture, const Box& part, bool is_alpha, const PackedFormat& format,
                      const Rows& to);
    CodedPicture decode_tile(const TiledPicture& picture, std::size_t index);
    void add_alpha(const PackedRegion& region, const Rows& to);

    std::unique_ptr<PictureDecoder> pictures_;
    std::optional<ImageItems> items_;
    HeifPicture picture_;
};

}  // namespace spdl
