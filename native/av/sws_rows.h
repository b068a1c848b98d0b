#pragma once

#include <cstddef>
#include <cstdint>

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

// Scales one row along x: output i is the sum of `taps` bytes from first[i] on, in 1/128 of a level. `taps` is a
// multiple of 8, up to kMostSwsTaps.
using ScaleSwsRow = void(const std::uint8_t* row, const int* first, const std::int16_t* weights, int taps, int count,
                         std::int16_t* to);
inline constexpr int kMostSwsTaps = 64;

// Makes a row of packed RGB of `width` pixels, an even number. `scratch` has room for 3 * (width + kSwsRowSlack).
using MixSwsRows = void(const SwsRowsIn& in, const SwsYuvColors& colors, int width, std::int16_t* scratch,
                        std::uint8_t* to);

struct SwsKernels {
    ScaleSwsRow* scale;
    MixSwsRows* mix;
};

// Returns those for this processor; null if libswscale is as fast on it.
const SwsKernels* sws_kernels();

}  // namespace spdl
