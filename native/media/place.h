#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/geometry.h"
#include "core/non_copyable.h"

namespace spdl {

// Takes an image row by row, from the top, as packed RGB bytes. A decoder asks for the place of a row, writes it there,
// and reports it. The calls never throw, because libjpeg may leave the frames that make them by longjmp.
class RowSink : NonCopyable {
  public:
    // A decoder asks for at most this many rows before it commits them.
    static constexpr int kMaxRows = 4;

    virtual ~RowSink() = default;

    // Returns where to write row `y`: 3 * width bytes.
    virtual std::uint8_t* row(int y) noexcept = 0;

    // Rows [y, y + count) are written.
    virtual void commit(int y, int count) noexcept = 0;
};

// The planes of an image in YCbCr. Those of chroma are alike.
enum Plane { kLuma, kBlueChroma, kRedChroma };
inline constexpr int kPlanes = 3;

// Takes an image as planes, from the top, some rows of each at a time. A decoder asks for the place of a row, writes it
// there, and reports it. As with RowSink, the calls never throw.
class PlaneSink : NonCopyable {
  public:
    virtual ~PlaneSink() = default;

    // Returns where to write row `y` of a plane. Rows are counted from the first wanted one; those above it have
    // negative numbers.
    virtual std::uint8_t* row(Plane plane, int y) noexcept = 0;

    // All rows in front of `luma` and of `chroma` are written.
    virtual void commit(int luma, int chroma) noexcept = 0;
};

// How the stored image is turned and mirrored against the upright one.
struct Orientation {
    bool transposed = false;  // Its rows are the upright image's columns.
    bool mirrored_x = false;  // Its rows run against the side of the upright image that they lie along,
    bool mirrored_y = false;  // or its columns do.

    bool operator==(const Orientation&) const = default;
    [[nodiscard]] bool upright() const { return !transposed && !mirrored_x && !mirrored_y; }
    [[nodiscard]] Size upright_size(Size stored) const {
        return transposed ? Size{stored.height, stored.width} : stored;
    }
    // Returns the same part of the stored image.
    [[nodiscard]] Box stored_box(const Box& upright, Size stored) const {
        Box box = transposed ? Box{upright.top, upright.left, upright.bottom, upright.right} : upright;
        if (mirrored_x) {
            box = {stored.width - box.right, box.top, stored.width - box.left, box.bottom};
        }
        if (mirrored_y) {
            box = {box.left, stored.height - box.bottom, box.right, stored.height - box.top};
        }
        return box;
    }
};

// Returns how the stored image lies against the upright one that is turned, and mirrored, once more: `turn` says how
// the upright image lies against the result.
inline Orientation turned(const Orientation& stored, const Orientation& turn) {
    const bool across = stored.transposed ? turn.mirrored_y : turn.mirrored_x;
    const bool down = stored.transposed ? turn.mirrored_x : turn.mirrored_y;
    return {stored.transposed != turn.transposed, stored.mirrored_x != across, stored.mirrored_y != down};
}

// Returns how a picture is stored that a viewer turns clockwise by 0, 90, 180 or 270 degrees.
inline Orientation turned_by(int degrees) {
    switch (degrees) {
        case 90:
            return {true, false, true};
        case 180:
            return {false, true, true};
        case 270:
            return {true, true, false};
        default:
            return {};
    }
}

// The place of the pixels of an image.
enum class MemoryKind { kHost, kDevice };

// The part of an image that is decoded, and how.
struct Region {
    int eighths = 8;  // The fraction of the image's size at which it is decoded: 8, 4, 2 or 1 eighths.
    Box box;          // In the stored image at that size.
    Channels channels = Channels::kRgb;
};

// The rows that a decoder delivers: `pixels` pixels each, whose first `skipped` are not wanted.
struct DecodedRows {
    int pixels = 0;
    int skipped = 0;
};

// The parts of an image's planes that are decoded, and how.
struct PlaneRegion {
    int eighths = 8;  // As in Region.
    Box luma;
    Box chroma;  // In the planes of chroma as they are stored at that fraction.
};

// The rows of a plane that a decoder delivers.
struct PlaneRows {
    int samples = 0;   // In each.
    int skipped = 0;   // How many of them, at the beginning, are not wanted.
    int together = 0;  // How many rows it writes before it commits them.
};

struct DecodedPlanes {
    PlaneRows luma;
    PlaneRows chroma;
};

// The destination of an image: its place in host memory, together with the resize and the conversion on the way there.
class Place : NonCopyable {
  public:
    // Called once for each image, when the decoder knows which rows it delivers.
    virtual RowSink& begin(const DecodedRows& rows) = 0;

  protected:
    ~Place() = default;
};

// The same for an image that comes as planes.
class PlanePlace : NonCopyable {
  public:
    virtual PlaneSink& begin(const DecodedPlanes& planes) = 0;

  protected:
    ~PlanePlace() = default;
};

// What the ids of an image are in its file, and how many bits they have.
struct StoredIds {
    enum class Kind { kNone, kIndices, kLevels };

    Kind kind = Kind::kNone;
    int bits = 0;
};

// The properties of an image that are known before it is decoded.
struct ImageShape {
    Size stored;
    Orientation orientation;  // Set only if the image is to be turned upright.
    Size chroma_grid{1, 1};   // How many pixels share a chroma sample.
    bool scalable = false;    // Can be decoded at an eighth, a quarter or a half of its size.

    // By FFmpeg's names, if they are known.
    const char* codec = "";
    const char* pixel_format = "";

    // It can be decoded as planes of YCbCr, where each sample of chroma lies in the middle of its pixels.
    bool planes = false;

    // Decoded at a fraction, a sample is not the mean of those that it stands for, but the first of them, smoothed.
    bool wavelets = false;

    // If the image is opened for its ids. Each is then three bytes on its way, the lowest first.
    StoredIds ids{};

    bool more_pages = false;  // Pages follow the one that is decoded, and none of them was asked for.

    // Returns the fraction of their stored size at which planes of chroma come from a decoder that has them, if luma
    // comes at `eighths` of its size. It is libjpeg's choice: as much more as makes chroma no larger than luma.
    [[nodiscard]] int chroma_eighths(int eighths) const {
        int chroma = eighths;
        while (chroma < 8 && chroma_grid.width * eighths % (2 * chroma) == 0 &&
               chroma_grid.height * eighths % (2 * chroma) == 0) {
            chroma *= 2;
        }
        return chroma;
    }

    [[nodiscard]] Size upright() const { return orientation.upright_size(stored); }
};

// Pixels in host memory, which the caller owns.
struct Picture {
    Size size;
    std::string_view pixel_format;                  // By FFmpeg's name.
    std::array<const std::uint8_t*, 4> planes{};    // Those of packed formats are one.
    std::array<std::ptrdiff_t, 4> row_distances{};  // In bytes, from one row of a plane to the next.
};

}  // namespace spdl
