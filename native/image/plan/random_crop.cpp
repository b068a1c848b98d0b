#include "image/plan/random_crop.h"

#include <algorithm>
#include <cmath>

namespace spdl {
namespace {

// The random numbers of one image for one purpose: splitmix64 (G. Steele et al., 2014), seeded with a hash of the key,
// the image and the purpose.
class Stream {
  public:
    Stream(const DrawKey& key, std::uint64_t index, std::uint64_t purpose) {
        for (const std::uint64_t part : {key.seed, key.epoch, index, purpose}) {
            state_ = mix(state_ + kStep) ^ part;
        }
        state_ = mix(state_ + kStep);
    }

    double uniform(double low, double high) {
        return low + (high - low) * (static_cast<double>(next() >> 11U) * 0x1p-53);
    }

    // Draws an integer from 0 to `last`, each with the same probability.
    int integer(int last) { return static_cast<int>((next() >> 32U) * (static_cast<std::uint64_t>(last) + 1) >> 32U); }

  private:
    static constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15U;

    static std::uint64_t mix(std::uint64_t value) {
        value = (value ^ value >> 30U) * 0xbf58476d1ce4e5b9U;
        value = (value ^ value >> 27U) * 0x94d049bb133111ebU;
        return value ^ value >> 31U;
    }

    std::uint64_t next() { return mix(state_ += kStep); }

    std::uint64_t state_ = 0;
};

constexpr std::uint64_t kCrop = 0;
constexpr std::uint64_t kFlip = 1;
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
    Stream stream(key, index, kCrop);
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
    return Stream(key, index, kFlip).uniform(0.0, 1.0) < probability;
}

}  // namespace spdl
