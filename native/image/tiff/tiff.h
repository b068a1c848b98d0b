#pragma once

#include <tiffio.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/buffer.h"
#include "core/bytes.h"
#include "core/file_parts.h"
#include "core/geometry.h"
#include "core/non_copyable.h"
#include "media/decoder.h"
#include "media/pixel_format.h"

namespace spdl {

// A TIFF in memory, opened by libtiff, at the picture to decode: the page whose directory is named, or the first one,
// or if that is marked as a smaller version, the one below it.
class TiffFile : NonCopyable {
  public:
    // `max_pixels` bounds the memory that libtiff allocates for itself. Throws MediaError.
    TiffFile(Bytes bytes, std::optional<std::uint64_t> page, std::int64_t max_pixels);
    ~TiffFile();

    [[nodiscard]] TIFF* get() const noexcept { return tiff_; }
    [[nodiscard]] Bytes bytes() const noexcept { return memory_.bytes; }

    // Returns the value of a tag of one number, or what it is by default; `otherwise` if libtiff has neither.
    template <typename Value>
    [[nodiscard]] Value value(std::uint32_t tag, Value otherwise) const {
        Value found{};
        return TIFFGetFieldDefaulted(tiff_, tag, &found) == 1 ? found : otherwise;
    }

    // Returns whether libtiff knows what the picture says about a tag.
    [[nodiscard]] bool has(std::uint32_t tag) const {
        std::uint64_t room = 0;
        return TIFFGetField(tiff_, tag, &room, &room, &room) == 1;
    }

    // Returns the stored directory of the picture, whatever libtiff makes of it.
    [[nodiscard]] std::optional<TiffDirectory> directory() const;

    // Returns whether the data of a JPEG inside were damaged.
    [[nodiscard]] bool damaged() const noexcept { return memory_.damaged; }

    // Throws the MediaError about the picture, with what libtiff said.
    [[noreturn]] void fail(const std::string& what) const;

    // libtiff's input and its messages.
    struct Memory {
        static constexpr std::size_t kWords = 256;

        Bytes bytes;
        std::uint64_t at = 0;
        char words[kWords] = "";
        bool damaged = false;
    };

  private:
    void go_to(std::uint64_t page);
    void go_below();

    Memory memory_;
    TIFF* tiff_ = nullptr;
};

// Throws the MediaError for a picture that is not read because its pixels are so.
[[noreturn]] void refuse_tiff(const std::string& pixels);

// The most bytes of a strip or tile.
std::int64_t most_tiff_bytes(std::int64_t max_pixels);

enum class TiffColors { kGray, kRgb, kPalette, kCmyk, kYcbcr };

enum class TiffNumbers { kUnsigned, kSigned, kFloat };

// The kind of pixels in a TIFF.
struct TiffPicture {
    Size size;
    TiffColors colors = TiffColors::kGray;
    bool inverted = false;  // Whether 0 is white.
    TiffNumbers numbers = TiffNumbers::kUnsigned;
    int bits = 1;
    int samples = 1;          // Per pixel.
    int alpha = 0;            // Which of them is alpha; 0 if none is.
    bool multiplied = false;  // Whether the colours have been multiplied by alpha.
    bool planar = false;
    bool deflated = false;
    bool by_libtiff = false;            // Whether libtiff converts the colours.
    bool may_end_early = false;         // Whether a strip's codec may leave rows out.
    bool lossy = false;                 // Whether the codec changes samples.
    bool as_ids = false;                // Whether indices and levels stay the numbers that they are.
    std::vector<std::uint8_t> palette;  // Three bytes for each index.
    PackedFormat format;

    // The number of samples that are colours or an index: they come first.
    [[nodiscard]] int color_samples() const;
};

// Reads what the pixels are, and has libtiff convert the colours of JPEG. Throws MediaError if they are not read.
TiffPicture read_tiff_picture(const TiffFile& file);

// Throws MediaError if what the file holds of the picture cannot be all of it, however well it is compressed: before
// there is memory for the picture.
void check_tiff_data(const TiffFile& file, const TiffPicture& picture);

// Inflates a strip or tile of `row_count` rows by libdeflate, which is twice as fast as zlib, and makes of it what
// libtiff would. Returns false if it does not do so: if the data are compressed in another way, and if anything about
// them is odd. libtiff has zlib inflate them then; its own use of libdeflate shows what was in memory before where data
// are too long.
bool inflate_tiff(const TiffFile& file, const TiffPicture& picture, std::uint32_t number, std::size_t row_bytes,
                  std::size_t row_count, std::uint8_t* to);

// The positions of samples in a row that libtiff has decoded.
struct TiffRow {
    const std::uint8_t* row;
    std::size_t first;  // The sample that is taken first,
    std::size_t step;   // and how far it is to the next.
    std::size_t count;
    bool index = false;  // Whether they are not levels, but indices.
};

// Takes samples of all levels out of a row, in steps of `step`. Sample is a byte, or 16 bits for pictures that have
// more than 8: a byte is then the upper one. Numbers that are signed, floating or of 32 bits are clipped to a byte.
template <typename Sample>
void take_tiff_samples(const TiffPicture& picture, const TiffRow& from, Sample* to, std::size_t step);

// Makes pixels of the picture's format from samples that lie side by side: first the colours, then alpha.
template <typename Sample>
void make_tiff_pixels(const TiffPicture& picture, const Sample* samples, std::size_t count, Sample* to);

extern template void take_tiff_samples(const TiffPicture&, const TiffRow&, std::uint8_t*, std::size_t);
extern template void take_tiff_samples(const TiffPicture&, const TiffRow&, std::uint16_t*, std::size_t);
extern template void make_tiff_pixels(const TiffPicture&, const std::uint8_t*, std::size_t, std::uint8_t*);
extern template void make_tiff_pixels(const TiffPicture&, const std::uint16_t*, std::size_t, std::uint16_t*);

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
