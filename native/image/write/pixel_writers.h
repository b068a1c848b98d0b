#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/buffer.h"
#include "core/geometry.h"
#include "media/pixel_format.h"

namespace spdl {

// Writes `count` pixels, each of three bytes, in an array's format: to three planes or, if the channels lie side by
// side, to the first plane alone. Reads up to kPixelSlack bytes beyond the end of the source, writes nothing beyond the
// pixels. There is one function for each instruction set; all write the same.
using PixelWriter = void(const ArrayFormat& format, const std::uint8_t* pixels, std::size_t count,
                         std::uint8_t* const* planes) noexcept;

inline constexpr std::size_t kPixelSlack = 64;

PixelWriter write_pixels_scalar;
PixelWriter write_pixels_avx2;
PixelWriter write_pixels_avx512;
PixelWriter write_pixels_neon;

// Pixels are ids, and the format has one channel.
PixelWriter write_ids;

// Writes the pixels from `first` on, which vectors leave over.
void write_pixels_from(std::size_t first, const ArrayFormat& format, const std::uint8_t* pixels, std::size_t count,
                       std::uint8_t* const* planes) noexcept;

// The planes of YCbCr, as JPEG has them: full range, chroma around 128.
struct ColorPlanes {
    const std::uint8_t* y;
    const std::uint8_t* cb;
    const std::uint8_t* cr;
};

// Turns `count` pixels of planes into packed pixels of three bytes, red first or blue first. Reads up to kPixelSlack
// bytes beyond the end of each plane, writes nothing beyond the pixels. There is one function for each instruction set;
// all write the same.
using ColorWriter = void(const ColorPlanes& planes, std::size_t count, bool blue_first, std::uint8_t* to) noexcept;

ColorWriter write_colors_scalar;
ColorWriter write_colors_avx2;
ColorWriter write_colors_avx512;
ColorWriter write_colors_neon;

// The conversion of JFIF (ITU-R BT.601), in steps that every instruction set has: products with 15 bits of fraction,
// rounded. Red and blue are then the rounded sums. Green has two products, which keep kGreenBits bits of their fraction
// until they are added.
namespace colors {

inline constexpr int kRound = 1 << 14;
inline constexpr int kRedFromCr = 22970;    // 1.402, of twice the value.
inline constexpr int kBlueFromCb = 29032;   // 1.772, of twice the value.
inline constexpr int kGreenFromCb = 11277;  // 0.344136.
inline constexpr int kGreenFromCr = 23401;  // 0.714136.
inline constexpr int kGreenBits = 5;

}  // namespace colors

// The place of one image in an array.
struct Canvas {
    std::uint8_t* data = nullptr;
    Size size;
    const ArrayFormat* format = nullptr;
};

// The part of the canvas that is written to, and the order.
struct Target {
    Box box;
    bool transposed = false;  // The rows that come are its columns.
    bool last_first = false;  // The last row comes first.

    [[nodiscard]] int rows() const { return transposed ? box.size().width : box.size().height; }
    [[nodiscard]] int row_pixels() const { return transposed ? box.size().height : box.size().width; }
};

// Takes an image as rows of three-byte pixels, and writes them to an array in its format.
class RowWriter {
  public:
    // Writes the format's padding outside of the target at once.
    void begin(const Canvas& canvas, const Target& target, PixelWriter* write_pixels);

    // Returns where to put the pixels of a row. Nothing after them may be written.
    [[nodiscard]] std::uint8_t* row(int index) const {
        return direct_ ? place(target_.box.left, canvas_row(index)) : row_.data();
    }

    // Call it when the row is complete.
    void commit(int index) {
        if (!direct_) {
            write(index, row_.data());
        }
    }

    // Writes a row that lies elsewhere. Up to kPixelSlack bytes after it are read.
    void put(int index, const std::uint8_t* pixels) {
        if (direct_) {
            std::memcpy(row(index), pixels, 3 * static_cast<std::size_t>(target_.row_pixels()));
        } else {
            write(index, pixels);
        }
    }

    // Returns whether rows are written to their place without a conversion.
    [[nodiscard]] bool direct() const { return direct_; }
    [[nodiscard]] const Target& target() const { return target_; }

  private:
    [[nodiscard]] int canvas_row(int index) const {
        return target_.last_first ? target_.box.bottom - 1 - index : target_.box.top + index;
    }
    [[nodiscard]] std::uint8_t* place(int x, int y) const {
        return canvas_.data + static_cast<std::size_t>(y) * row_stride_ + static_cast<std::size_t>(x) * pixel_stride_;
    }
    void write(int index, const std::uint8_t* pixels);
    void write_row(const std::uint8_t* pixels, int x, int y, int count);
    void write_column(const std::uint8_t* pixels, int x);
    void pad(int left, int right, int top, int bottom);

    Canvas canvas_;
    Target target_;
    PixelWriter* write_pixels_ = nullptr;
    bool direct_ = false;
    std::size_t pixel_stride_ = 0;
    std::size_t row_stride_ = 0;
    std::size_t plane_stride_ = 0;
    AlignedBuffer row_;
    AlignedBuffer padding_;
};

// Pictures in memory, (N, C, H, W), in any order of memory. Values are bytes, or 32-bit floats from 0 to 1.
struct PictureValues {
    const std::uint8_t* data = nullptr;
    std::array<std::size_t, 4> shape{};
    std::array<std::ptrdiff_t, 4> strides{};  // In bytes.
    bool floats = false;

    [[nodiscard]] std::size_t size() const { return shape[0] * shape[1] * shape[2] * shape[3]; }
};

// Writes pictures in an array's format, one after the other. Bytes become the same as when images are loaded; floats
// are multiplied by `scale`, and the format's offset is added. Pictures have the format's channels or, if it treats all
// channels alike, any number; floats do not become bytes. Returns whether all floats are from 0 to 1, or overshoot by
// no more than resizes and noise do.
bool write_pictures(const PictureValues& pictures, const ArrayFormat& format, const PerChannel& scale,
                    std::uint8_t* to);

}  // namespace spdl
