#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/bytes.h"
#include "core/geometry.h"

namespace spdl {

// The part of a picture that belongs to one object, as COCO writes it: polygons, which are united, or runs of pixels
// that belong to it and do not, in turns, down the columns from the left one on. The first run does not.
struct Segmentation {
    std::vector<std::vector<double>> polygons;  // Of x, y, x, y, and so on, in pixels.
    std::vector<std::int64_t> runs;             // If there are no polygons.
};

// Returns the runs that COCO's text for them stands for. Throws std::invalid_argument if it is none.
std::vector<std::int64_t> read_coco_runs(Bytes text);

// Fills segmentations of pictures of one size, with the same pixels as pycocotools.
class SegmentPainter {
  public:
    explicit SegmentPainter(Size size);

    // Writes `value` to the pixels of an object in a picture (H, W), and leaves the others as they are. Throws
    // std::invalid_argument if the segmentation is not one of a picture of that size; nothing is written then.
    template <typename Value>
    void paint(const Segmentation& segmentation, Value value, Value* to);

  private:
    // The pixels from one position to before another, counted down the columns.
    struct Run {
        std::size_t begin;
        std::size_t end;
    };

    void take_runs(std::span<const std::int64_t> lengths);
    void take_polygon(std::span<const double> points);
    void cross(int from_x, int from_y, int to_x, int to_y);
    void add_crossing(int column, int scaled_y);

    std::size_t width_;
    std::size_t height_;
    std::vector<Run> runs_;
    std::vector<std::size_t> crossings_;  // Where a polygon begins and ends in turns.
};

extern template void SegmentPainter::paint(const Segmentation&, std::uint8_t, std::uint8_t*);
extern template void SegmentPainter::paint(const Segmentation&, std::uint16_t, std::uint16_t*);

}  // namespace spdl
