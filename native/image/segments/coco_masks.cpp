#include "image/segments/coco_masks.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ranges>
#include <stdexcept>
#include <string>
#include <utility>

namespace spdl {

std::vector<std::int64_t> read_coco_runs(Bytes text) {
    constexpr unsigned kBits = 5;
    constexpr unsigned kMore = 1U << kBits;
    constexpr unsigned kSign = kMore >> 1U;
    constexpr unsigned kMostBits = 60;
    constexpr std::int64_t kMost = std::int64_t{1} << 40;
    constexpr std::size_t kPlain = 3;  // From this run on, a number is the difference from the run two before.
    std::vector<std::int64_t> runs;
    for (std::size_t at = 0; at < text.size();) {
        std::uint64_t number = 0;
        unsigned shift = 0;
        unsigned digit = kMore;
        for (; (digit & kMore) != 0; ++at, shift += kBits) {
            digit = at < text.size() ? text[at] - unsigned{'0'} : ~0U;
            if (digit >= 2 * kMore || shift >= kMostBits) {
                throw std::invalid_argument("its counts are damaged at character " + std::to_string(at));
            }
            number |= std::uint64_t{digit & (kMore - 1)} << shift;
        }
        if ((digit & kSign) != 0) {
            number |= ~std::uint64_t{0} << shift;
        }
        const std::int64_t before = runs.size() >= kPlain ? runs[runs.size() - 2] : 0;
        const std::int64_t run = static_cast<std::int64_t>(number) + before;
        if (run < 0 || run > kMost) {
            throw std::invalid_argument("its counts are damaged: run " + std::to_string(runs.size()) + " would have " +
                                        std::to_string(run) + " pixels");
        }
        runs.push_back(run);
    }
    return runs;
}

namespace {

// Polygons are followed on a grid that is finer by this factor. Of the fine columns, the middle one in each pixel
// decides where the polygon crosses the pixel's column.
constexpr int kScale = 5;
constexpr int kMiddle = kScale / 2;

// Rounds to the fine grid: towards zero, after a half is added.
int to_grid(double coordinate) {
    constexpr double kMost = 1e8;
    if (!(std::fabs(coordinate) <= kMost)) {
        throw std::invalid_argument("its polygons have a coordinate of " + std::to_string(coordinate));
    }
    return static_cast<int>(kScale * coordinate + 0.5);
}

}  // namespace

SegmentPainter::SegmentPainter(Size size)
    : width_(static_cast<std::size_t>(size.width)), height_(static_cast<std::size_t>(size.height)) {}

void SegmentPainter::take_runs(std::span<const std::int64_t> lengths) {
    const std::size_t whole = width_ * height_;
    std::size_t at = 0;
    bool belongs = false;
    for (const std::int64_t length : lengths) {
        if (length < 0 || static_cast<std::uint64_t>(length) > whole - at) {
            throw std::invalid_argument("its counts go beyond the " + std::to_string(whole) + " pixels of the picture");
        }
        const std::size_t end = at + static_cast<std::size_t>(length);
        if (belongs && end > at) {
            runs_.push_back({at, end});
        }
        at = end;
        belongs = !belongs;
    }
    if (at != whole) {
        throw std::invalid_argument("its counts are of " + std::to_string(at) + " pixels, and the picture has " +
                                    std::to_string(whole));
    }
}

void SegmentPainter::add_crossing(int column, int scaled_y) {
    const double y = (scaled_y + 0.5) / kScale - 0.5;
    const auto row = static_cast<std::size_t>(std::ceil(std::clamp(y, 0.0, static_cast<double>(height_))));
    crossings_.push_back(static_cast<std::size_t>(column) * height_ + row);
}

// Follows an edge from one fine column to the next, and notes the upper one of both points where it leaves the middle
// of a pixel. A steep edge has a point in each fine row, any other in each fine column.
void SegmentPainter::cross(int from_x, int from_y, int to_x, int to_y) {
    const bool steep = std::abs(to_y - from_y) > std::abs(to_x - from_x);
    if (steep ? from_y > to_y : from_x > to_x) {
        std::swap(from_x, to_x);
        std::swap(from_y, to_y);
    }
    const int left = std::min(from_x, to_x);
    const int right = std::max(from_x, to_x);
    const double slope = steep ? static_cast<double>(to_x - from_x) / (to_y - from_y)
                               : static_cast<double>(to_y - from_y) / std::max(to_x - from_x, 1);
    const auto along = [&](int from, int steps) { return static_cast<int>(from + slope * steps + 0.5); };
    int column = left <= kMiddle ? 0 : (left - kMiddle + kScale - 1) / kScale;
    for (; column < static_cast<int>(width_) && kScale * column + kMiddle < right; ++column) {
        const int fine = kScale * column + kMiddle;
        if (!steep) {
            add_crossing(column, std::min(along(from_y, fine - from_x), along(from_y, fine + 1 - from_x)));
            continue;
        }
        const auto steps = std::views::iota(1, to_y - from_y + 1);
        const auto before = [&](int step) {
            const int x = along(from_x, step);
            return slope > 0 ? x <= fine : x > fine;
        };
        const auto first = std::ranges::partition_point(steps, before);
        if (first != steps.end()) {
            add_crossing(column, from_y + *first - 1);
        }
    }
}

void SegmentPainter::take_polygon(std::span<const double> points) {
    constexpr std::size_t kLeast = 6;
    if (points.size() < kLeast || points.size() % 2 != 0) {
        throw std::invalid_argument("one of its polygons has " + std::to_string(points.size()) +
                                    " numbers, and not x and y of three points or more");
    }
    crossings_.clear();
    int x = to_grid(points[points.size() - 2]);
    int y = to_grid(points[points.size() - 1]);
    for (std::size_t at = 0; at < points.size(); at += 2) {
        const int next_x = to_grid(points[at]);
        const int next_y = to_grid(points[at + 1]);
        cross(x, y, next_x, next_y);
        x = next_x;
        y = next_y;
    }
    crossings_.push_back(width_ * height_);
    std::ranges::sort(crossings_);
    for (std::size_t i = 0; i + 1 < crossings_.size(); i += 2) {
        if (crossings_[i] < crossings_[i + 1]) {
            runs_.push_back({crossings_[i], crossings_[i + 1]});
        }
    }
}

template <typename Value>
void SegmentPainter::paint(const Segmentation& segmentation, Value value, Value* to) {
    runs_.clear();
    if (segmentation.polygons.empty()) {
        take_runs(segmentation.runs);
    }
    for (const std::vector<double>& polygon : segmentation.polygons) {
        take_polygon(polygon);
    }
    for (const auto& [begin, end] : runs_) {
        std::size_t x = begin / height_;
        std::size_t y = begin % height_;
        for (std::size_t left = end - begin; left > 0; ++x, y = 0) {
            const std::size_t rows = std::min(left, height_ - y);
            Value* pixel = to + y * width_ + x;
            for (std::size_t row = 0; row < rows; ++row, pixel += width_) {
                *pixel = value;
            }
            left -= rows;
        }
    }
}

template void SegmentPainter::paint(const Segmentation&, std::uint8_t, std::uint8_t*);
template void SegmentPainter::paint(const Segmentation&, std::uint16_t, std::uint16_t*);

}  // namespace spdl
