#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "image/jitter/color_jitter.h"

namespace spdl {

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
