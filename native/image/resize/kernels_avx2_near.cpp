#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "image/resize/kernels.h"
#include "image/resize/kernels_avx2.h"

// Weights of 14 bits fit the 16-bit multiplier: one sum of products is enough, whereas exact results take two. The sum
// is off by half a level at most. Half a level is subtracted, so the result is never above the exact one.

namespace spdl {
namespace {

constexpr int kFractionBits = 14;
constexpr int kGroup = 4;       // Output pixels at a time: two vectors of two.
constexpr int kPairs = 4;       // Pairs of taps in a vector of weights, for each of its two outputs.
constexpr int kTapsOfLoad = 4;  // 16 bytes hold 5 pixels, but pairs are multiplied.
constexpr char kNone = -1;

int loads(const ResampleTable& table) {
    return (table.max_taps + kTapsOfLoad - 1) / kTapsOfLoad;
}

int vectors(const ResampleTable& table) {
    return (loads(table) + 1) / 2;
}

// A group starts with a vector of the places where the bytes of its outputs begin. Each lane of a vector of weights
// then holds, for the output pixel of that lane, the pairs of two loads.
void pack(ResampleTable& table) {
    const int groups = (table.output + kGroup - 1) / kGroup;
    table.packed.reserve(static_cast<std::size_t>(groups * (1 + 2 * vectors(table))) * sizeof(__m256i));
    auto* packed = reinterpret_cast<std::int32_t*>(table.packed.data());
    // Beyond the last output, any one will do.
    const auto at = [&](int output) { return static_cast<std::size_t>(std::min(output, table.output - 1)); };
    for (int group = 0; group < table.output; group += kGroup) {
        for (int output = 0; output < kGroup; ++output) {
            packed[output] = 3 * table.first[at(group + output)];
        }
        packed += sizeof(__m256i) / sizeof(*packed);
        for (const int left : {group, group + 1}) {
            RoundedWeights weights[2] = {{table, at(left), kFractionBits}, {table, at(left + 2), kFractionBits}};
            for (int vector = 0; vector < vectors(table); ++vector) {
                for (RoundedWeights& lane : weights) {
                    packed = std::generate_n(packed, kPairs, [&] { return lane.pair(); });
                }
            }
        }
    }
}

void pack_vertical(ResampleTable& table) {
    pack_vertical_avx2(table);
    std::int32_t excess = 0;
    for (std::size_t output = 0; output < static_cast<std::size_t>(table.output); ++output) {
        const auto weights = table.weights.begin() + static_cast<std::ptrdiff_t>(output * table.stride);
        const std::int32_t sum = std::reduce(weights, weights + table.taps[output]);
        excess = std::max(excess, sum - (1 << ResampleTable::kFractionBits));
    }
    table.half += excess;
}

// The products of a load's pixels, four taps of either output, with two pairs of weights.
template <int kPair>
SPDL_AVX2 inline __m256i products(const std::uint8_t* left, const std::uint8_t* right, __m256i weights) {
    const __m256i pixels =
        _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(left))),
                                _mm_loadu_si128(reinterpret_cast<const __m128i*>(right)), 1);
    // Packed RGB as 16-bit pairs (R0 R1, G0 G1, B0 B1) of taps 0 and 1, 2 and 3.
    const __m256i first = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, kNone, 3, kNone, 1, kNone, 4, kNone, 2, kNone, 5, kNone, kNone, kNone, kNone, kNone));
    const __m256i second = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(6, kNone, 9, kNone, 7, kNone, 10, kNone, 8, kNone, 11, kNone, kNone, kNone, kNone, kNone));
    return _mm256_add_epi32(
        _mm256_madd_epi16(_mm256_shuffle_epi8(pixels, first), _mm256_shuffle_epi32(weights, kPair == 0 ? 0x00 : 0xaa)),
        _mm256_madd_epi16(_mm256_shuffle_epi8(pixels, second),
                          _mm256_shuffle_epi32(weights, kPair == 0 ? 0x55 : 0xff)));
}

// kLoads is the number of loads if it is known at compile time, otherwise 0.
template <std::size_t kRows, int kLoads>
SPDL_AVX2 void horizontal_rows(const ResampleTable& table, const std::uint8_t* const* sources,
                               std::uint8_t* const* outputs) noexcept {
    constexpr std::ptrdiff_t kLoadBytes = 3 * kTapsOfLoad;
    // The sum of the weights up to each tap is off by half of the last bit at most, and neighbouring levels differ by
    // 255 at most (summation by parts).
    const __m256i half = _mm256_set1_epi32((1 << (kFractionBits - 1)) - 128 * table.max_taps);
    const auto* weights = reinterpret_cast<const __m256i*>(table.packed.data());
    const int count = kLoads != 0 ? kLoads : loads(table);
    for (int output = 0; output < table.output; output += kGroup) {
        const auto* const first = reinterpret_cast<const std::int32_t*>(weights++);
        __m256i results[2][kRows];
        for (int vector = 0; vector < 2; ++vector) {
            __m256i sums[kRows];
            std::fill_n(sums, kRows, half);
            for (int load = 0; load < count; load += 2) {
                const __m256i pairs = _mm256_load_si256(weights++);
                for (std::size_t row = 0; row < kRows; ++row) {
                    const std::uint8_t* const left = sources[row] + first[vector] + load * kLoadBytes;
                    const std::uint8_t* const right = sources[row] + first[vector + 2] + load * kLoadBytes;
                    sums[row] = _mm256_add_epi32(sums[row], products<0>(left, right, pairs));
                    if (kLoads != 1 && load + 1 < count) {
                        sums[row] =
                            _mm256_add_epi32(sums[row], products<1>(left + kLoadBytes, right + kLoadBytes, pairs));
                    }
                }
            }
            for (std::size_t row = 0; row < kRows; ++row) {
                results[vector][row] = _mm256_srai_epi32(sums[row], kFractionBits);
            }
        }
        for (std::size_t row = 0; row < kRows; ++row) {
            store_pixels(results[0][row], results[1][row], outputs[row] + 3 * static_cast<std::ptrdiff_t>(output));
        }
    }
}

template <std::size_t kRows>
SPDL_AVX2 void horizontal_loads(const ResampleTable& table, const std::uint8_t* const* sources,
                                std::uint8_t* const* outputs) noexcept {
    switch (loads(table)) {
        case 1:
            return horizontal_rows<kRows, 1>(table, sources, outputs);
        case 2:
            return horizontal_rows<kRows, 2>(table, sources, outputs);
        default:
            return horizontal_rows<kRows, 0>(table, sources, outputs);
    }
}

SPDL_AVX2 void resample(const ResampleTable& table, const std::uint8_t* const* sources, std::uint8_t* const* outputs,
                        int count) noexcept {
    if (count == 2) {
        horizontal_loads<2>(table, sources, outputs);
    } else {
        horizontal_loads<1>(table, sources, outputs);
    }
}

}  // namespace

const NearPasses kAvx2Near{{pack, resample}, pack_vertical};

}  // namespace spdl

#endif
