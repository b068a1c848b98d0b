#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/bytes.h"
#include "core/geometry.h"
#include "core/image_items.h"
#include "core/non_copyable.h"
#include "media/decoder.h"
#include "media/pixel_format.h"

namespace spdl {

// How the samples of a picture stand for colours, in the numbers of ITU-T H.273; 2 is not specified.
struct SampleColors {
    int matrix = 2;
    int primaries = 2;
    bool full_range = false;
};

// Finds the colours that a file gives for an item. Returns whether it gives any.
bool find_colors(std::span<const ItemProperty> properties, SampleColors& found);

// The factors of a picture's samples for its colours.
struct ColorFactors {
    float red_cr;
    float green_cb;
    float green_cr;
    float blue_cb;
};

// Matrices that need no factors.
inline constexpr int kRgbMatrix = 0;
inline constexpr int kYcgcoMatrix = 8;

// Throws MediaError for matrices that are not known.
ColorFactors color_factors(const SampleColors& colors);

// How the samples of a picture lie: luma or green in the first plane, and if it is not gray, Cb or blue and Cr or red
// in two others.
struct SampleLayout {
    int depth = 8;  // In bits. Samples of more than 8 have two bytes, in the machine's order.
    bool gray = false;
    Size chroma_shift;  // How many times the sides of the other planes are halved.
    bool operator==(const SampleLayout&) const = default;
};

// A decoded picture in another owner's memory.
struct CodedPicture {
    SampleLayout layout;
    SampleColors colors;  // As its bitstream says.
    std::array<const std::uint8_t*, 3> planes{};
    std::array<std::ptrdiff_t, 3> row_distances{};  // In bytes.
};

// Decodes single pictures of HEVC.
class PictureDecoder : NonCopyable {
  public:
    virtual ~PictureDecoder() = default;

    // Decodes one picture from the pieces of its data and from what is in its box hvcC. The result is valid until the
    // next call. Throws MediaError if it is damaged or has another size.
    virtual CodedPicture decode(Bytes config, std::span<const Bytes> pieces, Size size) = 0;

    // Lets go of all memory.
    virtual void forget() noexcept = 0;
};

// Converts parts of decoded pictures to packed pixels, by libheif's arithmetic: each sample of chroma counts for all of
// its pixels. Alpha is left unchanged.
class YuvRows {
  public:
    // Throws MediaError for colours that are not known.
    YuvRows(const SampleLayout& layout, const SampleColors& colors, const PackedFormat& format);

    // Writes the pixels within `part` to rows that begin `row_bytes` apart.
    void convert(const CodedPicture& picture, const Box& part, std::uint8_t* to, std::size_t row_bytes);

  private:
    using Row = std::vector<std::uint16_t>;

    // The sample that stands for nothing, and what one level counts.
    struct Range {
        float zero;
        float factor;
    };

    void read(const CodedPicture& picture, std::size_t plane, int y, const Box& part);
    void convert_row(std::size_t width);
    void stretch_gray(std::size_t width, int most);
    void convert_integers(std::size_t width, int most);
    template <typename ToPixel>
    void convert_floats(std::size_t width, const Range& luma, const Range& chroma, const ToPixel& to_pixel);
    template <typename Change>
    void change(const Change& change);
    void write(std::uint8_t* to, std::size_t width);

    [[nodiscard]] Range range_of(float factor) const;
    [[nodiscard]] Range chroma_range() const;

    SampleLayout layout_;
    SampleColors colors_;
    PackedFormat format_;
    ColorFactors factors_;
    bool by_integers_;
    int depth_;    // In which colours are computed. Samples of more bits are cut before, and colours afterwards.
    Row rows_[3];  // Of samples, and then of red, green and blue.
};

// A plane of alpha with a sample for each pixel.
struct AlphaPlane {
    const std::uint8_t* begin;
    Size size;
    Size image;  // The size of the picture that it covers.
};

// Puts alpha into the pixels of `box`, a part of the picture: the nearest sample of the plane, as libheif does.
void write_alpha(const AlphaPlane& plane, const Box& box, const PackedFormat& format, std::uint8_t* to,
                 std::size_t row_bytes);

// Divides the colours of pixels by their alpha, as Pillow does.
void divide_by_alpha(Size size, const PackedFormat& format, std::uint8_t* to, std::size_t row_bytes);

// Returns how the picture of such a file is turned.
Orientation heif_orientation(Bytes heif);

// Makes a decoder of HEIF, whose pictures in HEVC are decoded by another.
std::unique_ptr<Decoder> make_heif_decoder(std::unique_ptr<PictureDecoder> pictures);

}  // namespace spdl
