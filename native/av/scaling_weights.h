#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "media/interpolation.h"

namespace spdl {

// The weights by which libswscale scales along one axis.
struct ScalingWeights {
    int taps = 0;                       // Of every output, some of them 0.
    int used = 0;                       // The taps that the widest output has.
    std::vector<int> first;             // For each output the first input; they never go back.
    std::vector<std::int16_t> weights;  // For each output its taps.
};

enum class ScalingAxis { kHorizontal, kVertical };

// Reads the weights for so many outputs of so many inputs off pictures that libswscale scales. The number of taps will
// be a multiple of `multiple`. Nothing if they cannot be read, or if there are not as many inputs.
std::optional<ScalingWeights> read_scaling_weights(ScalingAxis axis, int inputs, int outputs,
                                                   Interpolation interpolation, int multiple);

}  // namespace spdl
