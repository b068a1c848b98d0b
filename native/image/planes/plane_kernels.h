#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "core/geometry.h"
#include "image/resize/resample_table.h"
#include "media/place.h"

namespace spdl {

// A level of a plane on its way through a resize, in units of 1 / 64. Filters with negative weights go below 0 and
// above 255, and nothing is cut off before the conversion to RGB.
using FineLevel = std::int16_t;
inline constexpr int kFineBits = 6;
inline constexpr FineLevel kMiddle = 128 << kFineBits;  // Chroma without colour.

// How planes of luma and chroma become red, green and blue:
//     red = luma * (y - black) + red_from_cr * (cr - 128)
//     green = luma * (y - black) - green_from_cb * (cb - 128) - green_from_cr * (cr - 128)
//     blue = luma * (y - black) + blue_from_cb * (cb - 128)
// Those of red and blue are between 1 and 2.2. Integers with these bits of fraction end at 2, so chroma is added once
// and then its product with the rest.
struct YuvColors {
    static constexpr int kBits = 14;  // The bits of the fraction of all factors.
    static constexpr std::int16_t kOne = 1 << kBits;

    FineLevel black = 0;
    std::int16_t luma = 0;
    std::int16_t red_from_cr_less_1 = 0;
    std::int16_t green_from_cb = 0;
    std::int16_t green_from_cr = 0;
    std::int16_t blue_from_cb_less_1 = 0;
};

// An image in memory as planes of bytes, which it does not own.
struct YuvImage {
    struct Rows {
        const std::uint8_t* data = nullptr;  // The first row; null for chroma if none exists.
        std::ptrdiff_t stride = 0;           // From row to row, in bytes.
    };

    Size size;
    std::array<Rows, kPlanes> planes;
    // The logarithms of how many pixels share a sample of chroma, which lies in their middle.
    int chroma_shift_x = 0;
    int chroma_shift_y = 0;
    YuvColors colors;
};

// The weights of resamplings of planes in memory: 16-bit integers with kBits of fraction; every instruction set
// multiplies pairs and adds the products up. One form serves all.
namespace fine {

inline constexpr int kBits = 14;

// Weights so small that their rounding could change a sum by more than a level.
inline constexpr int kMaxTaps = 128;

// Outputs are computed that many at a time. Behind the last one, it is repeated.
inline constexpr int kGroup = 16;

inline int padded_outputs(const ResampleTable& table) {
    return (table.output + kGroup - 1) / kGroup * kGroup;
}

// Takes the samples at `first` of each output, as many as there are weights, which may be more than the row has.
struct Row {
    const std::int32_t* first;
    const std::int16_t* weights;
    int taps;  // 4, 8 or a multiple of 16, for every output.
};

inline int padded_taps(const ResampleTable& table) {
    constexpr int kFew = 4;
    constexpr int kSome = 8;
    constexpr int kMany = 16;
    return table.max_taps <= kFew    ? kFew
           : table.max_taps <= kSome ? kSome
                                     : (table.max_taps + kMany - 1) / kMany * kMany;
}

inline Row row(const ResampleTable& table) {
    const auto* const first = reinterpret_cast<const std::int32_t*>(table.packed.data());
    const auto* const weights = reinterpret_cast<const std::int16_t*>(first + padded_outputs(table));
    return {first, weights, padded_taps(table)};
}

// Another form for outputs that are near each other: table.lanes_fit. A load of 8 samples serves four outputs of a
// group, and a byte shuffle brings each its next pair of them. It is the same shuffle for every pair, as the load moves
// on with them.
inline constexpr int kLane = 4;

struct NearPair {
    std::int16_t weights[2 * kGroup];
};

// Followed by the weights of each pair.
struct alignas(64) NearGroup {
    std::uint8_t shuffle[4 * kGroup];
    std::int32_t base[kGroup / kLane];  // Where the loads begin.

    [[nodiscard]] const NearPair* pairs() const { return reinterpret_cast<const NearPair*>(this + 1); }
};

// The pairs of weights of one output, each as the two 16-bit halves of an integer, the first one the lower.
inline int pairs(const ResampleTable& table) {
    return (table.max_taps + 1) / 2;
}

inline const std::int32_t* column(const ResampleTable& table, int output) {
    return reinterpret_cast<const std::int32_t*>(table.packed.data()) +
           static_cast<std::ptrdiff_t>(output) * pairs(table);
}

inline std::size_t row_bytes(const ResampleTable& table) {
    const std::size_t bytes =
        static_cast<std::size_t>(padded_outputs(table)) *
        (sizeof(std::int32_t) + sizeof(std::int16_t) * static_cast<std::size_t>(padded_taps(table)));
    return (bytes + sizeof(NearPair) - 1) / sizeof(NearPair) * sizeof(NearPair);
}

inline std::size_t near_group_bytes(const ResampleTable& table) {
    return sizeof(NearGroup) + static_cast<std::size_t>(pairs(table)) * sizeof(NearPair);
}

// The groups, near_group_bytes(table) from each other.
inline const std::uint8_t* near_groups(const ResampleTable& table) {
    return table.packed.data() + row_bytes(table);
}

// Fill table.packed for row() and near_groups(), and for column().
void pack_row(ResampleTable& table);
void pack_column(ResampleTable& table);

}  // namespace fine

// One row of each plane.
struct YuvRow {
    const FineLevel* y;
    const FineLevel* cb;
    const FineLevel* cr;
};

// The steps of a resize of planes in memory, in one variant per instruction set. All give the same bytes.
struct PlaneKernels {
    // Adds up `count` pairs of rows, each multiplied by its weights (see fine::column), over columns [0, size). Reads
    // nothing beyond the rows; may write up to kFineSlack levels beyond the end of the output.
    void (*shorten)(const std::int32_t* weights, int count, const std::uint8_t* const* rows, FineLevel* output,
                    std::size_t size) noexcept;

    // Resamples a row along x, with a table that fine::pack_row has packed. Reads up to fine_slack(table) levels beyond
    // the end of the row, and may write up to kFineSlack levels beyond the end of the output.
    void (*narrow)(const ResampleTable& table, const FineLevel* row, FineLevel* output) noexcept;

    // Turns `count` levels of each plane into packed pixels of three bytes, red first or blue first. Reads up to
    // kFineSlack levels beyond the end of each row, writes nothing beyond the pixels.
    void (*write)(const YuvColors& colors, const YuvRow& row, std::size_t count, bool blue_first,
                  std::uint8_t* to) noexcept;
};

inline constexpr std::size_t kFineSlack = 64;

inline std::size_t fine_slack(const ResampleTable& table) {
    return kFineSlack + static_cast<std::size_t>(table.max_taps);
}

extern const PlaneKernels kScalarPlanes;
extern const PlaneKernels kAvx2Planes;
extern const PlaneKernels kAvx512Planes;
extern const PlaneKernels kNeonPlanes;

}  // namespace spdl
