#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/buffer.h"
#include "core/bytes.h"
#include "image/tiff/tiff_file.h"
#include "image/tiff/tiff_picture.h"
#include "media/decoder.h"

namespace spdl {

// Returns the place of the directories of a TIFF's pages, of the first `most` ones: of the chain that begins in its
// header, up to a link to one that came before. Throws MediaError if the bytes are not TIFF, or the chain leaves the
// file.
std::vector<std::uint64_t> tiff_pages(Bytes bytes, std::size_t most);

// Decodes TIFF: libtiff finds and decompresses strips and tiles, which are unpacked here. libtiff converts the
// colours of YCbCr where Pillow has it do so.
class TiffDecoder final : public PackedDecoder {
  public:
    ImageShape open(const EncodedImage& image, const DemuxOptions& demux, const DecodeOptions& decode) override;

  protected:
    [[nodiscard]] bool takes(ImageFormat format) const noexcept override { return format == ImageFormat::kTiff; }
    PackedShape describe(Bytes bytes, std::int64_t max_pixels) override;
    StoredIds show_ids() override;
    [[nodiscard]] Box decodable(int eighths, const Box& wanted) const override;
    void decode_packed(const PackedRegion& region, std::uint8_t* to, std::size_t row_bytes) override;
    void forget() noexcept override;

  private:
    // The destination of the pixels of a part of the picture.
    struct Output {
        Box box;
        std::uint8_t* pixels;
        std::size_t row_bytes;

        [[nodiscard]] std::uint8_t* at(int x, int y, std::size_t pixel_bytes) const;
    };

    // Parts of the picture that are decompressed at once: strips, or tiles, which may go beyond its sides.
    struct Chunks {
        bool tiled = false;
        Size size;
        std::size_t row_bytes = 0;
        std::size_t bytes = 0;
    };

    [[nodiscard]] Chunks find_chunks() const;

    // Decodes the chunk in whose upper left corner the pixel lies.
    void decode_chunk(const Chunks& chunks, int x, int y, int plane, std::uint8_t* to);

    template <typename Sample>
    void decode_samples(const Chunks& chunks, const Output& output);

    // Unpacks the part `box` of the chunk that begins at `corner`.
    template <typename Sample>
    void unpack(const Chunks& chunks, const Box& box, int x, int y, const Output& output);

    // Has libtiff convert the colours.
    void convert(const Chunks& chunks, const Output& output);

    std::optional<std::uint64_t> page_;
    std::optional<TiffFile> file_;
    TiffPicture picture_;
    Chunks chunks_;
    std::int64_t max_pixels_ = 0;
    AlignedBuffer chunk_;
    AlignedBuffer samples_;
};

}  // namespace spdl
