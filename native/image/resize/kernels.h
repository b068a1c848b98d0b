#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "image/planes/plane_kernels.h"
#include "image/resize/resample_table.h"
#include "image/write/pixel_writers.h"

namespace spdl {

// The weights of one output, one after the other, with fewer bits of fraction. It rounds the sum of the weights so far.
// So all weights together are still 1, and even areas stay unchanged. Behind the last weight come zeros.
class RoundedWeights {
  public:
    RoundedWeights(const ResampleTable& table, std::size_t output, int bits)
        : weights_(table.weights.data() + output * table.stride),
          taps_(table.taps[output]),
          shift_(ResampleTable::kFractionBits - bits) {}

    std::int32_t next() {
        if (tap_ < taps_) {
            sum_ += weights_[tap_++];
        }
        const std::int32_t rounded = (sum_ + (1 << (shift_ - 1))) >> shift_;
        const std::int32_t weight = rounded - given_;
        given_ = rounded;
        return weight;
    }

    // The next two, as the 16-bit halves of an integer, the first one the lower.
    std::int32_t pair() {
        constexpr std::uint32_t kHalf = 0xffff;
        const auto left = static_cast<std::uint32_t>(next());
        return static_cast<std::int32_t>((left & kHalf) | static_cast<std::uint32_t>(next()) << 16U);
    }

  private:
    const std::int32_t* weights_;
    int taps_;
    int shift_;
    int tap_ = 0;
    std::int32_t sum_ = 0;
    std::int32_t given_ = 0;
};

// Resamples rows.
struct HorizontalPass {
    // Writes table.packed in the form that the pass wants; a table serves one pass.
    void (*pack)(ResampleTable& table);

    // Resamples `count` (1 or 2) rows along x. Reads up to read_slack(table) bytes beyond the end of a
    // source row, and may write up to kWriteSlack bytes beyond the end of an output row.
    void (*resample)(const ResampleTable& table, const std::uint8_t* const* sources, std::uint8_t* const* outputs,
                     int count) noexcept;
};

// Faster passes, for filters without negative weights and rows of up to kMaxNearTaps. Together they are off by a level
// at most: the horizontal pass gives the exact result or one less, and the vertical pass takes a mean of such rows.
struct NearPasses {
    HorizontalPass horizontal;

    // For Kernels::vertical. Rounded weights may add up to more than 1. The mean of rows that are all one less would
    // then be less by more than a level, so the difference is added.
    void (*pack_vertical)(ResampleTable& table);
};

// The two passes of a resize and the functions that write its result, in one variant per instruction set. All variants
// give the same bytes, except for `near`.
struct Kernels {
    const char* name;
    bool (*supported)() noexcept;

    HorizontalPass horizontal;  // Of packed RGB.
    HorizontalPass plane;       // Of a single channel.

    // For exact=False; null if the exact passes are as fast.
    const NearPasses* near;

    // Does the work of HorizontalPass::pack for the vertical pass.
    void (*pack_vertical)(ResampleTable& table);

    // Computes output row `index`, of `size` bytes, from the table.taps[index] rows that it needs. Reads up to
    // kReadSlack bytes beyond the end of each row, writes none.
    void (*vertical)(const ResampleTable& table, int index, const std::uint8_t* const* rows, std::uint8_t* output,
                     std::size_t size) noexcept;

    PixelWriter* write_pixels;
    ColorWriter* write_colors;

    const PlaneKernels* planes;  // For planes in memory.
};

// With weights of 14 bits, a sum over this many is off by half a level at most.
inline constexpr int kMaxNearTaps = 64;

inline constexpr std::size_t kReadSlack = 192;
inline constexpr std::size_t kWriteSlack = 64;

// Kernels read the same number of samples for every output. Those at the border have fewer taps.
inline std::size_t read_slack(const ResampleTable& table) {
    return kReadSlack + 3 * static_cast<std::size_t>(table.max_taps);
}

extern const Kernels kScalarKernels;
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;
extern const Kernels kNeonKernels;

// Returns the variants that this processor can run, fastest first.
std::vector<const Kernels*> available_kernels();

// Returns the fastest variant, unless another was selected.
const Kernels& kernels() noexcept;

// Selects the variant called `name`; "" selects the fastest. Returns false if the processor has no such variant. For
// tests.
bool select_kernels(std::string_view name);

}  // namespace spdl
