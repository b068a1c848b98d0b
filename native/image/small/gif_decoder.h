#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "media/packed_decoder.h"

namespace spdl {

// The first picture of a GIF.
struct GifPicture {
    Size screen;
    Box box;       // On the screen.
    Bytes colors;  // Three bytes each; none if the pixels are levels of gray.
    std::optional<std::uint8_t> transparent;
    bool interlaced = false;
    unsigned bits = 0;  // Of a pixel's LZW code.
    Bytes data;         // The parts of the codes, and what follows.
};

// Decodes the first picture of a GIF as Pillow does: the screen is as large as the picture needs, what lies beside it
// has the transparent colour, or else the first, and pixels without a colour are black.
class GifDecoder final : public PackedDecoder {
  protected:
    [[nodiscard]] bool takes(ImageFormat format) const noexcept override { return format == ImageFormat::kGif; }
    PackedShape describe(Bytes bytes, std::int64_t max_pixels) override;
    void decode_packed(const PackedRegion& region, std::uint8_t* to, std::size_t row_bytes) override;
    void forget() noexcept override;

  private:
    // Decodes the picture to one byte per pixel, in the order in which its rows are stored.
    void decode_indices();

    GifPicture picture_;
    std::vector<std::uint8_t> codes_;
    AlignedBuffer indices_;
};

}  // namespace spdl
