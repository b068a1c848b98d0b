#include "image/plan/random_crop.h"

#include <algorithm>
#include <cmath>

namespace spdl {
namespace {

constexpr int kAttempts = 10;

// Rounds to the nearest, halves to even, as Python does.
int round(double value) {
    return static_cast<int>(std::nearbyint(value));
}

Box center(Size size, Size crop) {
    const int left = (size.width - crop.width) / 2;
    const int top = (size.height - crop.height) / 2;
    return {left, top, left + crop.width, top + crop.height};
}

}  // namespace

Box RandomCrop::draw(std::uint64_t index, Size size) const {
    DrawStream stream(key, index, Purpose::kCrop);
    const double area = static_cast<double>(size.width) * size.height;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
        const double wanted = area * stream.uniform(scale.first, scale.second);
        const double aspect = std::exp(stream.uniform(std::log(ratio.first), std::log(ratio.second)));
        const double width = std::nearbyint(std::sqrt(wanted * aspect));
        const double height = std::nearbyint(std::sqrt(wanted / aspect));
        if (width > 0 && width <= size.width && height > 0 && height <= size.height) {
            const Size crop{static_cast<int>(width), static_cast<int>(height)};
            const int top = stream.integer(size.height - crop.height);
            const int left = stream.integer(size.width - crop.width);
            return {left, top, left + crop.width, top + crop.height};
        }
    }
    const double own = static_cast<double>(size.width) / size.height;
    if (own < ratio.first) {
        return center(size, {size.width, std::max(round(size.width / ratio.first), 1)});
    }
    if (own > ratio.second) {
        return center(size, {std::max(round(size.height * ratio.second), 1), size.height});
    }
    return whole(size);
}

bool draw_flip(const DrawKey& key, std::uint64_t index, double probability) {
    return DrawStream(key, index, Purpose::kFlip).uniform(0.0, 1.0) < probability;
}

}  // namespace spdl
