#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/geometry.h"
#include "image/plan/random_crop.h"

namespace spdl {

enum class JitterStep : std::uint8_t { kBrightness, kContrast, kSaturation, kHue };

inline constexpr std::size_t kJitterSteps = 4;

// The changes to the colours of one image, and their order. A factor of 1 and a hue of 0 do nothing.
struct Jitter {
    std::array<JitterStep, kJitterSteps> order{JitterStep::kBrightness, JitterStep::kContrast, JitterStep::kSaturation,
                                               JitterStep::kHue};
    float brightness = 1;
    float contrast = 1;
    float saturation = 1;
    float hue = 0;  // Turns around the circle of colours.
};

// Random changes of colour, as torchvision's ColorJitter distributes them: each factor uniformly from its range, and
// the steps in any order.
struct ColorJitter {
    DrawKey key;
    std::pair<double, double> brightness;
    std::pair<double, double> contrast;
    std::pair<double, double> saturation;
    std::pair<double, double> hue;
    std::vector<std::uint64_t> indices;  // Of the images in the data set.

    [[nodiscard]] Jitter draw(std::uint64_t index) const;
};

// Changes the colours of an image, of three bytes each: red, green and blue, or the other way round. Every step is
// computed on floats and bounded by 0 and 255, and the result is rounded once. Reads up to kJitterSlack bytes after the
// pixels. All instruction sets give the same.
void jitter_pixels(std::uint8_t* pixels, std::size_t count, Channels channels, const Jitter& jitter);

inline constexpr std::size_t kJitterSlack = 64;

// The steps that change something.
struct JitterPlan {
    Jitter jitter;
    std::array<JitterStep, kJitterSteps> order{};
    std::size_t steps = 0;
    std::size_t before_contrast = 0;  // How many of them come before the contrast.
    float mean = 0;                   // Of the grays there.
    bool swapped = false;             // Blue comes first.
};

// The passes over an image, in one variant per instruction set.
struct JitterKernels {
    // Returns the sum of the grays of all pixels before the contrast.
    double (*sum_gray)(const JitterPlan& plan, const std::uint8_t* pixels, std::size_t count);

    void (*apply)(const JitterPlan& plan, std::uint8_t* pixels, std::size_t count);
};

// Returns the fastest variant that goes with the kernels of the resize.
const JitterKernels& jitter_kernels() noexcept;

}  // namespace spdl
