#include "image/augment/random_erase.h"

#include <cmath>
#include <cstring>

namespace spdl {
namespace {

constexpr int kAttempts = 10;

// Fills a rectangle of cells, which are elements or whole pixels.
void fill(std::uint8_t* first, std::size_t row_bytes, Size size, Bytes cell) {
    for (std::size_t x = 0; x < static_cast<std::size_t>(size.width); ++x) {
        std::memcpy(first + x * cell.size(), cell.data(), cell.size());
    }
    for (std::size_t y = 1; y < static_cast<std::size_t>(size.height); ++y) {
        std::memcpy(first + y * row_bytes, first, static_cast<std::size_t>(size.width) * cell.size());
    }
}

void fill(const Box& box, const ImageArray& array, Bytes values, std::uint8_t* image) {
    const auto width = static_cast<std::size_t>(array.size.width);
    const std::size_t planes = array.planes ? array.channels : 1;
    const std::size_t cell = values.size() / planes;
    const std::size_t plane = width * static_cast<std::size_t>(array.size.height) * cell;
    const std::size_t first = static_cast<std::size_t>(box.top) * width + static_cast<std::size_t>(box.left);
    for (std::size_t i = 0; i < planes; ++i) {
        fill(image + i * plane + first * cell, width * cell, box.size(), values.subspan(i * cell, cell));
    }
}

}  // namespace

std::optional<Box> RandomErase::draw(std::uint64_t index, Size size) const {
    DrawStream stream(key, index, Purpose::kErase);
    if (stream.uniform(0.0, 1.0) >= probability) {
        return std::nullopt;
    }
    const double area = static_cast<double>(size.width) * size.height;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
        const double wanted = area * stream.uniform(scale.first, scale.second);
        const double aspect = std::exp(stream.uniform(std::log(ratio.first), std::log(ratio.second)));
        const double height = std::nearbyint(std::sqrt(wanted * aspect));
        const double width = std::nearbyint(std::sqrt(wanted / aspect));
        if (height < size.height && width < size.width) {
            const Size box{static_cast<int>(width), static_cast<int>(height)};
            const int top = stream.integer(size.height - box.height);
            const int left = stream.integer(size.width - box.width);
            return Box{left, top, left + box.width, top + box.height};
        }
    }
    return std::nullopt;
}

void erase(const RandomErase& random, const ImageArray& array, Bytes values, std::uint8_t* images) {
    const std::size_t bytes =
        static_cast<std::size_t>(array.size.width) * static_cast<std::size_t>(array.size.height) * values.size();
    for (std::size_t i = 0; i < random.indices.size(); ++i) {
        if (const std::optional<Box> box = random.draw(random.indices[i], array.size)) {
            fill(*box, array, values, images + i * bytes);
        }
    }
}

}  // namespace spdl
