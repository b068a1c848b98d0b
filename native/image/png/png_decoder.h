#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/aligned_buffer.h"
#include "image/png/png_header.h"
#include "media/decoder.h"

namespace spdl {

// Decodes PNG: libdeflate inflates the whole picture, and each row is unfiltered and written while it is in the cache.
// The rows of an interlaced one are put together before. Of an animation, this is the picture that every reader shows.
class PngDecoder final : public Decoder {
  public:
    [[nodiscard]] bool accepts(const EncodedImage& image, const DemuxOptions& demux,
                               const DecodeOptions& decode) const noexcept override;
    [[nodiscard]] MemoryKind output() const noexcept override { return MemoryKind::kHost; }
    ImageShape open(const EncodedImage& image, const DemuxOptions& demux, const DecodeOptions& decode) override;
    void decode(const Region& region, Place& place) override;
    [[nodiscard]] bool packs(const EncodedImage& /*image*/) const noexcept override { return true; }
    void decode_whole(std::uint8_t* to, std::size_t row_bytes) override;
    void close() noexcept override;

  private:
    // Returns the compressed pixels: those in the file, or a copy if several chunks hold them. `cut_` says whether the
    // file ends behind them.
    Bytes compressed();

    // Throws the error for compressed pixels that are damaged for this reason, or cut.
    [[noreturn]] void refuse(const std::string& reason) const;

    // Inflates the rows, each after the number of its filter.
    void inflate(std::size_t size);

    // Returns the bytes of a part of so many pixels, once inflated.
    [[nodiscard]] std::size_t inflated_bytes(Size size) const;

    // Undoes the filters of a part whose rows begin at `row`, and hands the number and the pixels of each to `use`,
    // down to `bottom`. Returns where the next row begins.
    template <typename Use>
    std::uint8_t* unfilter_rows(std::uint8_t* row, int width, int bottom, const Use& use);

    // Decodes the picture down to `bottom`, and hands the number and the unfiltered pixels of each row to `use`.
    template <typename Use>
    void decode_rows(int bottom, const Use& use);

    // Puts an interlaced picture together.
    void join_passes();

    Bytes bytes_;
    PngHeader header_;
    bool cut_ = false;
    std::vector<std::uint8_t> joined_;
    AlignedBuffer rows_;   // A row of zeros, then the picture's.
    AlignedBuffer whole_;  // The rows of an interlaced picture.
};

}  // namespace spdl
