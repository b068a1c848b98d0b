#pragma once

#include <cstddef>
#include <cstdint>

#include "av/scaling_weights.h"
#include "core/aligned_buffer.h"

namespace spdl {

// How libswscale makes RGB of YUV: chroma moves luma by a whole number of levels, and a straight line makes a colour of
// the sum. All in 16.16.
struct SwsYuvColors {
    std::int32_t slope = 0;  // Of the line, and where it begins.
    std::int32_t start = 0;
    std::int32_t red_of_v = 0;  // How far each level of chroma moves luma.
    std::int32_t green_of_u = 0;
    std::int32_t green_of_v = 0;
    std::int32_t blue_of_u = 0;
};

// Rows of samples and their weights, for one row of the result.
struct SwsRowsIn {
    const std::int16_t* const* luma;
    const std::int16_t* luma_weights;
    int luma_taps;  // An even number, as the one below.
    const std::int16_t* const* u;
    const std::int16_t* const* v;
    const std::int16_t* chroma_weights;
    int chroma_taps;
};

// Samples beyond the end of a row that may be read and written.
inline constexpr std::size_t kSwsRowSlack = 32;

// How rows are scaled along x: an output is the sum of `taps` bytes from `first` on, in 1/128 of a level. `taps` is a
// multiple of 8, up to kMostSwsTaps.
struct SwsRowWeights {
    ScalingWeights plain;
    int inputs = 0;
    AlignedBuffer packed;  // The same as the processor likes it; empty if it takes them as they are.
};
inline constexpr int kMostSwsTaps = 64;

using PackSwsWeights = void(SwsRowWeights& weights);

// Outputs come in groups of so many.
inline constexpr int kSwsGroup = 16;

// Scales rows of one plane, or of two that are alike. The first output is `begin`, a multiple of kSwsGroup.
using ScaleSwsRows = void(const SwsRowWeights& weights, const std::uint8_t* const* rows, std::int16_t* const* to,
                          int num_rows, int begin, int end);

// Makes a row of a plane of bytes: the sum of rows by their weights, an even number of them.
using MixSwsPlane = void(const std::int16_t* const* rows, const std::int16_t* weights, int taps, int start, int width,
                         std::uint8_t* to);

// Makes a row of packed RGB of `width` pixels, an even number. `scratch` has room for 3 * (width + kSwsRowSlack).
using MixSwsRows = void(const SwsRowsIn& in, const SwsYuvColors& colors, int width, std::int16_t* scratch,
                        std::uint8_t* to);

struct SwsKernels {
    PackSwsWeights* pack;
    ScaleSwsRows* scale;
    MixSwsRows* mix;
    // Of each product, only the upper 16 bits count, for which `start` makes up.
    MixSwsPlane* mix_plane;
    // Rounds the sum; nothing else is added.
    MixSwsPlane* round_plane;
};

// Returns those for this processor; null if libswscale is as fast on it.
const SwsKernels* sws_kernels();

// What has no variant for AVX-512 is done with AVX2.
extern const SwsKernels kAvx2SwsKernels;
PackSwsWeights pack_sws_weights_avx512;
ScaleSwsRows scale_sws_rows_avx512;

}  // namespace spdl
