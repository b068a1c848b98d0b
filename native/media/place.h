#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/geometry.h"
#include "core/sinks.h"

namespace spdl {

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
    [[nodiscard]] Box stored_box(const Box& upright, Size stored) const;
};

// Returns how the stored image lies against the upright one that is turned, and mirrored, once more: `turn` says how
// the upright image lies against the result.
Orientation turned(const Orientation& stored, const Orientation& turn);

// Returns how a picture is stored that a viewer turns clockwise by 0, 90, 180 or 270 degrees.
Orientation turned_by(int degrees);

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
class Place {
  public:
    // Called once for each image, when the decoder knows which rows it delivers.
    virtual RowSink& begin(const DecodedRows& rows) = 0;

    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

  protected:
    Place() = default;
    ~Place() = default;
};

// The same for an image that comes as planes.
class PlanePlace {
  public:
    virtual PlaneSink& begin(const DecodedPlanes& planes) = 0;

    PlanePlace(const PlanePlace&) = delete;
    PlanePlace& operator=(const PlanePlace&) = delete;

  protected:
    PlanePlace() = default;
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
