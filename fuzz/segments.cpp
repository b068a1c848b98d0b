// Fuzzes the code that paints COCO's segmentations. An input is a head of four bytes (what it is, the width and the
// height of the picture, how many numbers a polygon has), and then the text of runs, or the numbers of polygons or of
// runs, of 64 bits each.

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "guarded.h"
#include "image/segments/coco_masks.h"
#include "target.h"

namespace spdl::fuzz {
namespace {

constexpr std::size_t kHead = 4;
constexpr std::size_t kNumber = 8;

template <typename Number>
std::vector<Number> numbers(std::span<const std::uint8_t> bytes) {
    std::vector<Number> read(bytes.size() / kNumber);
    if (!read.empty()) {
        std::memcpy(read.data(), bytes.data(), kNumber * read.size());
    }
    return read;
}

Segmentation read_segmentation(std::span<const std::uint8_t> input) {
    const auto rest = input.subspan(kHead);
    if (input[0] % 3 == 0) {
        return {{}, read_coco_runs(rest)};
    }
    if (input[0] % 3 == 1) {
        return {{}, numbers<std::int64_t>(rest)};
    }
    Segmentation polygons;
    const std::size_t bytes = kNumber * (1 + input[3]);
    for (std::size_t at = 0; at < rest.size(); at += bytes) {
        polygons.polygons.push_back(numbers<double>(rest.subspan(at, std::min(bytes, rest.size() - at))));
    }
    return polygons;
}

}  // namespace

bool run(std::span<const std::uint8_t> input) {
    if (input.size() < kHead) {
        return false;
    }
    const Size size{1 + input[1], 1 + input[2]};
    const auto pixels = static_cast<std::size_t>(size.width) * static_cast<std::size_t>(size.height);
    const Guarded guarded(input);
    const Guarded narrow(pixels);
    const Guarded wide(2 * pixels);
    try {
        const Segmentation segmentation = read_segmentation(guarded.bytes());
        SegmentPainter painter(size);
        painter.paint(segmentation, std::uint8_t{7}, narrow.bytes().data());
        painter.paint(segmentation, std::uint16_t{7}, reinterpret_cast<std::uint16_t*>(wide.bytes().data()));
    } catch (const std::invalid_argument&) {
        return false;
    }
    for (std::size_t at = 0; at < pixels; ++at) {
        if (narrow.bytes()[at] != wide.bytes()[2 * at]) {
            throw std::logic_error("masks of both types differ");
        }
    }
    return true;
}

void mend(Input& /*input*/) {}

}  // namespace spdl::fuzz
