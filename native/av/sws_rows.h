#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/buffer.h"
#include "ffmpeg/libav.h"
#include "media/pixel_format.h"

namespace spdl {

// The weights that libswscale uses along one axis.
struct ScalingWeights {
    int taps = 0;                       // Of every output, some of them 0.
    int used = 0;                       // The taps that the widest output has.
    std::vector<int> first;             // For each output the first input; they never go back.
    std::vector<std::int16_t> weights;  // For each output its taps.
};

enum class ScalingAxis { kHorizontal, kVertical };

// Reads the weights for that many outputs of that many inputs off pictures that libswscale scales. The number of taps
// will be a multiple of `multiple`. Nothing if they cannot be read, or if there are not as many inputs.
std::optional<ScalingWeights> read_scaling_weights(ScalingAxis axis, int inputs, int outputs,
                                                   Interpolation interpolation, int multiple);

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

// Outputs come in groups of that many.
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
    // Only the upper 16 bits of each product count; `start` compensates for that.
    MixSwsPlane* mix_plane;
    // Rounds the sum; nothing else is added.
    MixSwsPlane* round_plane;
};

// Returns those for this processor; null if libswscale is as fast on it.
const SwsKernels* sws_kernels();

// Steps without a variant for AVX-512 use AVX2.
extern const SwsKernels kAvx2SwsKernels;
PackSwsWeights pack_sws_weights_avx512;
ScaleSwsRows scale_sws_rows_avx512;

// The rows that the first pass of a SwsScaler has made of a plane, or of two that are alike: as many as the second pass
// needs at once.
class SwsRing {
  public:
    // For the columns from `left` to `right` of the result. All but the frame's samples must live as long as the ring,
    // and `memory` has room for size().
    SwsRing(const AVFrame& frame, int first_plane, int num_planes, const SwsRowWeights& across,
            const ScalingWeights& down, int left, int right, std::int16_t* memory);

    static std::size_t size(int num_planes, const ScalingWeights& down, int left, int right);

    // Makes the rows that a row of the result needs, and puts the rows in the order of their weights into `rows`, the
    // second plane after the first. Rows of the result come from top to bottom.
    void prepare(int y, const std::int16_t** rows);

    // Returns the weights of a row of the result.
    [[nodiscard]] const std::int16_t* weights(int y) const {
        return down_.weights.data() + static_cast<std::ptrdiff_t>(y) * down_.taps;
    }

  private:
    [[nodiscard]] std::int16_t* row(int plane, int index) const {
        return memory_ + static_cast<std::size_t>(plane * down_.taps + index % down_.taps) * length_;
    }

    const AVFrame& frame_;
    int first_plane_;
    int num_planes_;
    const SwsRowWeights& across_;
    const ScalingWeights& down_;
    int begin_;  // A multiple of kSwsGroup.
    int left_;
    int right_;
    std::size_t length_;
    std::int16_t* memory_;
    int next_ = 0;
};

}  // namespace spdl
