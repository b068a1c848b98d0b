#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/channels.h"
#include "image/plan/draw_stream.h"

namespace spdl {

enum class JitterStep : std::uint8_t { kBrightness, kContrast, kSaturation, kHue };

inline constexpr std::size_t kJitterSteps = 4;

// What is done to the colours of one image, and in which order. A factor of 1 and a hue of 0 do nothing.
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
// computed on floats and bounded by 0 and 255, and the result is rounded once. Reads up to kJitterSlack bytes behind
// the pixels. All instruction sets give the same.
void jitter_pixels(std::uint8_t* pixels, std::size_t count, Channels channels, const Jitter& jitter);

inline constexpr std::size_t kJitterSlack = 64;

}  // namespace spdl
