#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/geometry.h"
#include "image/heic/coded_picture.h"
#include "image/heic/sample_colors.h"
#include "media/packed_format.h"

namespace spdl {

// Converts parts of decoded pictures to packed pixels, by libheif's arithmetic: each sample of chroma counts for all of
// its pixels. Alpha is left as it is.
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

}  // namespace spdl
