#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/buffer.h"
#include "media/pixel_format.h"

namespace spdl {

// One side of a resize: the stretch of the input, the number of samples that it becomes, and which of them are wanted.
struct Axis {
    int input = 0;       // The number of samples; the filter sees no others.
    double begin = 0.0;  // The stretch that is resized: all of them, except for fractions of a sample at the ends.
    double end = 0.0;
    int output = 0;         // How many samples it becomes,
    int first = 0;          // and from which on,
    int count = 0;          // how many of these are wanted.
    bool mirrored = false;  // The input comes last sample first.
    bool reversed = false;  // The output comes last sample first.

    // If fewer samples come than the input has, as each stands for several.
    struct Fewer {
        int length = 0;          // How many samples the input is a part of; 0 if none are missing.
        int place = 0;           // Where in them it begins.
        bool upsampled = false;  // Each came twice, to be made two by libjpeg's smooth upsampling.
        int halvings = 0;        // How often the mean of each two was taken,
        bool first = false;      // or rather the first of each two, smoothed, as wavelets do.

        bool operator==(const Fewer&) const = default;
    };
    Fewer fewer;

    [[nodiscard]] bool keeps_length() const { return begin == 0.0 && end == input && input == output; }
    // Returns whether nothing has to be computed: the output is a part of the input, in its order.
    [[nodiscard]] bool copies() const { return keeps_length() && mirrored == reversed; }

    bool operator==(const Axis&) const = default;
};

// Returns how far from its centre a filter ends, in samples of the coarser side.
double filter_support(Interpolation interpolation);

// The weights of a resampling along one axis: output i is the sum over t < taps[i] of weights[i * stride + t] *
// input[source + first[i] + t], in fixed point with kFractionBits, rounded and clipped to 8 bits. It has only the
// wanted outputs, in the wanted order.
struct ResampleTable {
    static constexpr int kFractionBits = 22;

    Axis axis;
    Interpolation interpolation = Interpolation::kBilinear;
    int output = 0;          // How many there are.
    int source = 0;          // The first sample of the input, as it comes, that is needed; of all if it has `fewer`,
    int source_count = 0;    // and how many from there on.
    std::size_t stride = 0;  // Weights per output, unused ones zero.
    int max_taps = 0;        // The most taps of any output.
    std::vector<std::int32_t> first;
    std::vector<std::int32_t> taps;
    std::vector<std::int32_t> weights;

    // The start value of sums, which rounds their integer part.
    std::int32_t half = 0;

    // The same weights in the form of the kernels that the table is used with (see HorizontalPass::pack).
    AlignedBuffer packed;
    std::size_t packed_windows = 0;  // How many vectors hold the source of one output vector.
    bool lanes_fit = false;          // One load holds a tap of four neighbouring outputs, of a single channel.
    bool ready = false;              // Both forms are complete; no exception came in between.

    [[nodiscard]] bool serves(const Axis& wanted, Interpolation with) const {
        return ready && axis == wanted && interpolation == with;
    }

    // Fills the table, reusing its memory. The weights equal those in Pillow's resize (its Resample.c): filters widened
    // by the scale when shrinking, normalised in double precision, then rounded.
    void build(const Axis& wanted, Interpolation with);

    // Returns the least and the greatest `first` of `count` outputs; the last output is repeated after itself. The ones
    // between may lie beyond both ends: samples at the ends that have no weight are left out.
    [[nodiscard]] std::pair<std::int32_t, std::int32_t> firsts(int begin, int count) const;

  private:
    template <typename Spread>
    void halve(int begin, int length, const Spread& spread);
    void take_fewer();
};

// Keeps the tables of the last few resizes: most folders have a few image sizes, and a table costs as much as a tenth
// of a small image's resize.
class TableCache {
  public:
    // The result of each is valid until its next call.
    const ResampleTable* horizontal(const Axis& axis, Interpolation interpolation, void (*pack)(ResampleTable&));
    const ResampleTable* vertical(const Axis& axis, Interpolation interpolation, void (*pack)(ResampleTable&));

  private:
    struct Tables {
        std::array<ResampleTable, 4> tables;
        std::size_t oldest = 0;
        const ResampleTable* get(const Axis& axis, Interpolation interpolation, void (*pack)(ResampleTable&));
    };

    void (*pack_horizontal_)(ResampleTable&) = nullptr;
    void (*pack_vertical_)(ResampleTable&) = nullptr;
    Tables horizontal_;
    Tables vertical_;
};

// Samples from one to before another.
struct SampleRange {
    int begin = 0;
    int end = 0;
};

// The part of the input that a copy needs.
inline SampleRange copied_samples(const Axis& axis) {
    const int begin = axis.mirrored ? axis.input - axis.first - axis.count : axis.first;
    return {begin, begin + axis.count};
}

// The part of the input that a table needs.
template <typename Table>
SampleRange needed_samples(const Table& table) {
    return {table.source, table.source + table.source_count};
}

}  // namespace spdl
