#pragma once

#include "core/channels.h"
#include "core/geometry.h"
#include "core/plane_sink.h"
#include "core/row_sink.h"

namespace spdl {

// Where the pixels of an image are.
enum class MemoryKind { kHost, kDevice };

// The part of an image that is decoded, and how.
struct Region {
    int eighths = 8;  // The fraction of the image's size at which it is decoded: 8, 4, 2 or 1 eighths.
    Box box;          // In the stored image at that size.
    Channels channels = Channels::kRgb;
};

// The rows that a decoder delivers: `pixels` pixels each, of which the first `skipped` are not wanted.
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

// Where an image goes: its place in host memory, together with the resize and the conversion on the way there.
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

}  // namespace spdl
