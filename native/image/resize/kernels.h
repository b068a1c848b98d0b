#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "image/resize/resample_table.h"
#include "image/write/pixel_writers.h"

namespace spdl {

// What resamples rows.
struct HorizontalPass {
    // Writes table.packed in the form that the pass wants; a table serves one pass.
    void (*pack)(ResampleTable& table);

    // Resamples `count` (1 or 2) rows of packed RGB along x. Reads up to read_slack(table) bytes beyond the end of a
    // source row, and may write up to kWriteSlack bytes beyond the end of an output row.
    void (*resample)(const ResampleTable& table, const std::uint8_t* const* sources, std::uint8_t* const* outputs,
                     int count) noexcept;
};

// Faster ones, for filters without negative weights and rows of up to kMaxNearTaps. Together they are a level off at
// most: the horizontal pass gives the exact result or one less, and of such rows the vertical one takes a mean.
struct NearPasses {
    HorizontalPass horizontal;

    // For Kernels::vertical. Weights are rounded, and may add up to more than 1: the mean of rows that are all one less
    // would be less by more than a level. That much is added.
    void (*pack_vertical)(ResampleTable& table);
};

// The two passes of a resize and what writes its result, in one variant per instruction set. All variants give the same
// bytes, but for `near`.
struct Kernels {
    const char* name;
    bool (*supported)() noexcept;

    HorizontalPass horizontal;

    // For exact=False; none where the exact passes are as fast.
    const NearPasses* near;

    // As HorizontalPass::pack.
    void (*pack_vertical)(ResampleTable& table);

    // Output row `index`, of `size` bytes, from the table.taps[index] rows it needs. Reads up to kReadSlack bytes
    // beyond the end of each row, writes none.
    void (*vertical)(const ResampleTable& table, int index, const std::uint8_t* const* rows, std::uint8_t* output,
                     std::size_t size) noexcept;

    PixelWriter* write_pixels;
};

// Of 14 bits of a weight a sum over so many is half a level off at most.
inline constexpr int kMaxNearTaps = 64;

inline constexpr std::size_t kReadSlack = 192;
inline constexpr std::size_t kWriteSlack = 64;

// Kernels read as many samples for an output at the border, which has fewer taps, as for any other.
inline std::size_t read_slack(const ResampleTable& table) {
    return kReadSlack + 3 * static_cast<std::size_t>(table.max_taps);
}

extern const Kernels kScalarKernels;
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;
extern const Kernels kNeonKernels;

// The variants this processor can run, fastest first.
std::vector<const Kernels*> available_kernels();

// The fastest variant, unless another was selected.
const Kernels& kernels() noexcept;

// Makes `name` the variant in use, "" the fastest; false where the processor has no such variant. For tests.
bool select_kernels(std::string_view name);

}  // namespace spdl
