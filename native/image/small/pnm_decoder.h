#pragma once

#include <cstddef>
#include <cstdint>

#include "media/packed_decoder.h"

namespace spdl {

// The first picture of a PBM, PGM or PPM.
struct PnmPicture {
    unsigned kind = 0;  // The digit behind the P.
    Size size;
    std::uint32_t levels = 1;  // The largest sample.
    Bytes samples;             // And what follows.

    [[nodiscard]] bool is_text() const { return kind <= 3; }
    [[nodiscard]] bool is_bits() const { return kind == 1 || kind == 4; }
    [[nodiscard]] int channels() const { return kind == 3 || kind == 6 ? 3 : 1; }
    [[nodiscard]] int sample_bytes() const { return levels > 255 ? 2 : 1; }
    [[nodiscard]] std::size_t row_samples() const {
        return static_cast<std::size_t>(size.width * std::int64_t{channels()});
    }

    // Of one in binary.
    [[nodiscard]] std::size_t row_bytes() const {
        return is_bits() ? (row_samples() + 7) / 8 : row_samples() * static_cast<std::size_t>(sample_bytes());
    }
};

// Decodes PBM, PGM and PPM as Pillow does: samples are scaled to 255 or 65535.
class PnmDecoder final : public PackedDecoder {
  protected:
    [[nodiscard]] bool takes(ImageFormat format) const noexcept override;
    PackedShape describe(Bytes bytes, std::int64_t max_pixels) override;
    void decode_packed(const PackedRegion& region, std::uint8_t* to, std::size_t row_bytes) override;
    void forget() noexcept override { picture_ = {}; }

  private:
    PnmPicture picture_;
};

}  // namespace spdl
