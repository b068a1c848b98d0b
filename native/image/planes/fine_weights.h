#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "image/resize/resample_table.h"

namespace spdl {

// The weights of resamplings of planes in memory: 16-bit integers with kBits of fraction, of which every instruction
// set multiplies pairs and adds the products up. One form serves all.
namespace fine {

inline constexpr int kBits = 14;

// Weights so small that their rounding could change a sum by more than a level.
inline constexpr int kMaxTaps = 128;

// Outputs are computed so many at a time. Behind the last one, it is repeated.
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

}  // namespace spdl
