#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/geometry.h"

namespace spdl {

// The key of the random numbers. The numbers of one image do not depend on the other images that are loaded, nor on
// their order.
struct DrawKey {
    std::uint64_t seed = 0;
    std::uint64_t epoch = 0;
};

// The purpose of an image's random numbers. Numbers for different purposes are independent.
enum class Purpose : std::uint64_t {
    kCrop = 0,
    kFlip = 1,
    kJitter = 2,
    kPolicy = 16,
    kJitterHappens,
    kGrayscale,
    kBlurHappens,
    kBlur,
    kSolarize,
    kPosterize,
    kEqualize,
    kAutocontrast,
    kSharpness,
    kErase,
};

// The random numbers of one image for one purpose: splitmix64 (G. Steele et al., 2014), seeded with a hash of the key,
// the image and the purpose.
class DrawStream {
  public:
    DrawStream(const DrawKey& key, std::uint64_t index, Purpose purpose) {
        for (const std::uint64_t part : {key.seed, key.epoch, index, static_cast<std::uint64_t>(purpose)}) {
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

// Crops of random area and aspect ratio, as torchvision's RandomResizedCrop distributes them: ten attempts, then the
// largest centred crop whose ratio is allowed.
struct RandomCrop {
    DrawKey key;
    std::pair<double, double> scale;     // The least and the greatest share of the image's area,
    std::pair<double, double> ratio;     // and ratio of width to height.
    std::vector<std::uint64_t> indices;  // Of the images in the data set.

    [[nodiscard]] Box draw(std::uint64_t index, Size size) const;
};

// True with a probability of `probability`, independently of the crop that is drawn for the same image.
bool draw_flip(const DrawKey& key, std::uint64_t index, double probability);

}  // namespace spdl
