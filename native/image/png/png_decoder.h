#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/aligned_buffer.h"
#include "image/png/png_header.h"
#include "media/decoder.h"

namespace spdl {

// Decodes PNGs that are not interlaced: libdeflate inflates the whole picture, and each row is unfiltered and written
// while it is in the cache.
class PngDecoder final : public Decoder {
  public:
    [[nodiscard]] bool accepts(const EncodedImage& image, const DemuxOptions& demux,
                               const DecodeOptions& decode) const noexcept override;
    [[nodiscard]] MemoryKind output() const noexcept override { return MemoryKind::kHost; }
    ImageShape open(const EncodedImage& image, const DemuxOptions& demux, const DecodeOptions& decode) override;
    void decode(const Region& region, Place& place) override;
    void close() noexcept override;

  private:
    // Returns the compressed pixels: those in the file, or a copy if several chunks hold them. `cut_` says whether the
    // file ends behind them.
    Bytes compressed();

    // Throws the error for compressed pixels that are damaged for this reason, or cut.
    [[noreturn]] void refuse(const std::string& reason) const;

    // Inflates the rows, each after the number of its filter.
    void inflate(std::size_t size);

    Bytes bytes_;
    PngHeader header_;
    bool cut_ = false;
    std::vector<std::uint8_t> joined_;
    AlignedBuffer rows_;  // A row of zeros, then the picture's.
};

}  // namespace spdl
