#pragma once

#include <cstdint>
#include <vector>

#include "core/aligned_buffer.h"
#include "image/interpolation.h"

namespace spdl {

// The weights of a resampling along one axis: output i is the sum over t < taps[i] of
// weights[i * stride + t] * input[first[i] + t], in fixed point with kFractionBits, rounded and clipped to 8 bits.
struct ResampleTable {
    static constexpr int kFractionBits = 22;

    int input = 0;
    int output = 0;
    Interpolation interpolation = Interpolation::kBilinear;
    std::size_t stride = 0;  // Weights per output, unused ones zero.
    int max_taps = 0;        // The most that any output uses.
    std::vector<std::int32_t> first;
    std::vector<std::int32_t> taps;
    std::vector<std::int32_t> weights;

    // The same weights in the form of the kernels that the table is used with (see Kernels::pack_horizontal).
    AlignedBuffer packed;
    std::size_t packed_windows = 0;  // How many vectors hold the source of one output vector.
    bool ready = false;              // Both forms are complete: no exception came in between.

    [[nodiscard]] bool serves(int in, int out, Interpolation with) const {
        return ready && input == in && output == out && interpolation == with;
    }

    // Fills the table for `in` samples to `out`, reusing its memory. The weights are those of Pillow's resize (its
    // Resample.c): filters widened by the scale when shrinking, normalised in double precision, then rounded.
    void build(int in, int out, Interpolation with);
};

}  // namespace spdl
