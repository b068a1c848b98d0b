#pragma once

#include <cstddef>
#include <cstdint>

#include "core/aligned_buffer.h"
#include "media/decoder.h"
#include "media/image_format.h"
#include "media/packed_format.h"

namespace spdl {

// A picture as PackedDecoder::describe finds it.
struct PackedShape {
    Size size;
    PackedFormat format;
    const char* codec = "";  // FFmpeg's name.
    bool scalable = false;   // As in ImageShape,
    bool wavelets = false;   // and this, too.
};

// The part of a picture that is decoded, and as what.
struct PackedRegion {
    int eighths = 8;  // As in Region.
    Box box;          // In the picture at that size.
    PackedFormat format;
};

// What the decoders of one format each have in common: they decode to packed pixels in memory, from which the rows are
// taken.
class PackedDecoder : public Decoder {
  public:
    [[nodiscard]] bool accepts(const EncodedImage& image, const DemuxOptions& demux,
                               const DecodeOptions& decode) const noexcept final;
    [[nodiscard]] MemoryKind output() const noexcept final { return MemoryKind::kHost; }
    ImageShape open(const EncodedImage& image, const DemuxOptions& demux, const DecodeOptions& decode) override;
    void decode(const Region& region, Place& place) final;
    [[nodiscard]] bool packs(const EncodedImage& /*image*/) const noexcept final { return true; }
    void decode_whole(std::uint8_t* to, std::size_t row_bytes) final;
    void close() noexcept final;

  protected:
    // Returns whether the format is one that this decoder is for.
    [[nodiscard]] virtual bool takes(ImageFormat format) const noexcept = 0;

    // Reads the header of a picture whose bytes stay in place until forget(), which follows even if this throws. The
    // caller checks the size, before anything is allocated for it; limits of the format's own library are set to
    // `max_pixels`.
    virtual PackedShape describe(Bytes bytes, std::int64_t max_pixels) = 0;

    // Returns the part that decode_packed() must be asked for if `wanted` is wanted: it may be larger. All of the
    // picture, unless a decoder saves time by less.
    [[nodiscard]] virtual Box decodable(int eighths, const Box& wanted) const;

    // Decodes a part that decodable() has named, once. Its format is the described one, or the same with samples of one
    // byte. `to` has room for the rows, which begin `row_bytes` apart.
    virtual void decode_packed(const PackedRegion& region, std::uint8_t* to, std::size_t row_bytes) = 0;

    // Lets go of the picture.
    virtual void forget() noexcept = 0;

    // The size of the open picture at a fraction of its own.
    [[nodiscard]] Size scaled_size(int eighths) const;

  private:
    PackedShape shape_;
    AlignedBuffer pixels_;
};

}  // namespace spdl
