#if defined(__x86_64__)

#include "image/resize/kernels_avx2.h"

#include <algorithm>
#include <cstring>

#include "core/cpu_features.h"

namespace spdl {
namespace {

std::int32_t weight(const ResampleTable& table, std::size_t output, int tap) {
    return tap < table.taps[output] ? table.weights[output * table.stride + static_cast<std::size_t>(tap)] : 0;
}

}  // namespace

WeightPair weight_pair(const ResampleTable& table, std::size_t output, int tap) {
    const std::int32_t left = weight(table, output, tap);
    const std::int32_t right = weight(table, output, tap + 1);
    const auto join = [](std::int32_t first, std::int32_t second) {
        return static_cast<std::int32_t>((static_cast<std::uint32_t>(first) & 0xffffU) |
                                         (static_cast<std::uint32_t>(second) << 16U));
    };
    return {join(left >> 8, right >> 8), join(left & 0xff, right & 0xff)};
}

namespace {

// Horizontally, a 128-bit lane holds one output pixel. 16 bytes are 5 source pixels; a byte shuffle pairs up their
// taps, 4 at a time. If one tap is left over, it is taken from the last load and multiplied unchanged.
struct Steps {
    int loads;
    int pairs;  // Per load.
    bool rest;

    [[nodiscard]] int vectors() const { return loads + (rest ? 1 : 0); }
};

Steps steps(const ResampleTable& table) {
    const bool rest = table.max_taps % 4 == 1 && table.max_taps > 1;
    return {(table.max_taps + (rest ? 0 : 3)) / 4, table.max_taps <= 2 ? 1 : 2, rest};
}

constexpr int kGroup = 4;  // Output pixels at a time: two vectors of two.

// A group starts with a vector of the places where the bytes of its outputs begin. Each lane of a vector of weights
// then holds, for the output pixel of that lane, the two pairs of one load. Spreading them takes a shuffle each, but a
// table of spread weights would not stay in the first-level cache beside the pixels.
void pack_horizontal(ResampleTable& table) {
    const Steps step = steps(table);
    const int groups = (table.output + kGroup - 1) / kGroup;
    table.packed.reserve(static_cast<std::size_t>(groups * (1 + 2 * step.vectors())) * sizeof(__m256i));
    auto* packed = reinterpret_cast<std::int32_t*>(table.packed.data());
    for (int group = 0; group < groups; ++group) {
        for (int output = group * kGroup; output < group * kGroup + kGroup; ++output) {
            packed[output % kGroup] = 3 * table.first[static_cast<std::size_t>(std::min(output, table.output - 1))];
        }
        packed += sizeof(__m256i) / sizeof(*packed);
        for (int left = group * kGroup; left < group * kGroup + 2; ++left) {
            for (int tap = 0; tap < 4 * step.vectors(); tap += 4) {
                for (const int output : {left, left + 2}) {
                    // Beyond the last output, any weights will do.
                    const auto at = static_cast<std::size_t>(std::min(output, table.output - 1));
                    if (tap == 4 * step.loads) {
                        packed = std::fill_n(packed, 4, weight(table, at, tap));
                        continue;
                    }
                    for (const WeightPair pair : {weight_pair(table, at, tap), weight_pair(table, at, tap + 2)}) {
                        *packed++ = pair.high;
                        *packed++ = pair.low;
                    }
                }
            }
        }
    }
}

// The weights of a pair, spread over the lanes.
template <std::size_t kPair>
SPDL_AVX2 inline __m256i high_weights(__m256i weights) {
    return _mm256_shuffle_epi32(weights, kPair == 0 ? 0x00 : 0xaa);
}

template <std::size_t kPair>
SPDL_AVX2 inline __m256i low_weights(__m256i weights) {
    return _mm256_shuffle_epi32(weights, kPair == 0 ? 0x55 : 0xff);
}

// kLoads is the number of loads if it is known at compile time, otherwise 0.
template <std::size_t kRows, int kLoads, std::size_t kPairs, bool kRest>
SPDL_AVX2 void horizontal_rows(const ResampleTable& table, const std::uint8_t* const* sources,
                               std::uint8_t* const* outputs) noexcept {
    constexpr char kNone = -1;
    // Byte shuffles that turn packed RGB into 16-bit pairs (R0 R1, G0 G1, B0 B1) of taps 0 and 1, 2 and 3.
    const __m256i pairings[2] = {
        _mm256_broadcastsi128_si256(
            _mm_setr_epi8(0, kNone, 3, kNone, 1, kNone, 4, kNone, 2, kNone, 5, kNone, kNone, kNone, kNone, kNone)),
        _mm256_broadcastsi128_si256(
            _mm_setr_epi8(6, kNone, 9, kNone, 7, kNone, 10, kNone, 8, kNone, 11, kNone, kNone, kNone, kNone, kNone)),
    };
    // Tap 4, as integers.
    const __m256i single = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        12, kNone, kNone, kNone, 13, kNone, kNone, kNone, 14, kNone, kNone, kNone, kNone, kNone, kNone, kNone));
    const __m256i half = _mm256_set1_epi32(table.half);
    const auto* weights = reinterpret_cast<const __m256i*>(table.packed.data());
    const int loads = kLoads != 0 ? kLoads : steps(table).loads;
    for (int output = 0; output < table.output; output += kGroup) {
        const auto* const first = reinterpret_cast<const std::int32_t*>(weights++);
        __m256i results[2][kRows];
        for (int vector = 0; vector < 2; ++vector) {
            const std::ptrdiff_t left = first[vector];
            const std::ptrdiff_t right = first[vector + 2];
            __m256i pixels[kRows];
            __m256i high[kRows];
            __m256i low[kRows];
            for (std::size_t row = 0; row < kRows; ++row) {
                pixels[row] = high[row] = _mm256_setzero_si256();
                low[row] = half;
            }
            for (int load = 0; load < loads; ++load) {
                for (std::size_t row = 0; row < kRows; ++row) {
                    const std::uint8_t* const source = sources[row] + 12 * static_cast<std::ptrdiff_t>(load);
                    pixels[row] = _mm256_inserti128_si256(
                        _mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(source + left))),
                        _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + right)), 1);
                }
                const __m256i pairs = _mm256_load_si256(weights++);
                for (std::size_t row = 0; row < kRows; ++row) {
                    const __m256i taps = _mm256_shuffle_epi8(pixels[row], pairings[0]);
                    high[row] = _mm256_add_epi32(high[row], _mm256_madd_epi16(taps, high_weights<0>(pairs)));
                    low[row] = _mm256_add_epi32(low[row], _mm256_madd_epi16(taps, low_weights<0>(pairs)));
                }
                if constexpr (kPairs == 2) {
                    for (std::size_t row = 0; row < kRows; ++row) {
                        const __m256i taps = _mm256_shuffle_epi8(pixels[row], pairings[1]);
                        high[row] = _mm256_add_epi32(high[row], _mm256_madd_epi16(taps, high_weights<1>(pairs)));
                        low[row] = _mm256_add_epi32(low[row], _mm256_madd_epi16(taps, low_weights<1>(pairs)));
                    }
                }
            }
            if constexpr (kRest) {
                const __m256i rest_weights = _mm256_load_si256(weights++);
                for (std::size_t row = 0; row < kRows; ++row) {
                    const __m256i taps = _mm256_shuffle_epi8(pixels[row], single);
                    low[row] = _mm256_add_epi32(low[row], _mm256_mullo_epi32(taps, rest_weights));
                }
            }
            for (std::size_t row = 0; row < kRows; ++row) {
                results[vector][row] = join(high[row], low[row]);
            }
        }
        for (std::size_t row = 0; row < kRows; ++row) {
            store_pixels(results[0][row], results[1][row], outputs[row] + 3 * static_cast<std::ptrdiff_t>(output));
        }
    }
}

template <std::size_t kRows>
SPDL_AVX2 void horizontal_steps(const ResampleTable& table, const std::uint8_t* const* sources,
                                std::uint8_t* const* outputs) noexcept {
    const Steps step = steps(table);
    if (step.pairs == 1) {
        horizontal_rows<kRows, 1, 1, false>(table, sources, outputs);
    } else if (step.rest && step.loads == 1) {
        horizontal_rows<kRows, 1, 2, true>(table, sources, outputs);
    } else if (step.rest && step.loads == 2) {
        horizontal_rows<kRows, 2, 2, true>(table, sources, outputs);
    } else if (step.rest) {
        horizontal_rows<kRows, 0, 2, true>(table, sources, outputs);
    } else {
        horizontal_rows<kRows, 0, 2, false>(table, sources, outputs);
    }
}

SPDL_AVX2 void horizontal(const ResampleTable& table, const std::uint8_t* const* sources, std::uint8_t* const* outputs,
                          int count) noexcept {
    if (count == 2) {
        horizontal_steps<2>(table, sources, outputs);
    } else {
        horizontal_steps<1>(table, sources, outputs);
    }
}

std::size_t vertical_pairs(const ResampleTable& table) {
    return static_cast<std::size_t>(table.max_taps + 1) / 2;
}

void pack_columns(ResampleTable& table) {
    const std::size_t pairs = vertical_pairs(table);
    const auto outputs = static_cast<std::size_t>(table.output);
    table.packed.reserve(outputs * pairs * sizeof(WeightPair));
    auto* packed = reinterpret_cast<WeightPair*>(table.packed.data());
    for (std::size_t output = 0; output < outputs; ++output) {
        for (std::size_t pair = 0; pair < pairs; ++pair) {
            *packed++ = weight_pair(table, output, static_cast<int>(2 * pair));
        }
    }
}

constexpr std::size_t kColumns = sizeof(__m256i);

SPDL_AVX2 inline __m256i vertical_columns(const WeightPair* weights, int taps, const std::uint8_t* const* rows,
                                          std::size_t column, __m256i half) {
    const __m256i zero = _mm256_setzero_si256();
    __m256i high[4] = {zero, zero, zero, zero};
    __m256i low[4] = {half, half, half, half};
    for (int tap = 0; tap < taps; tap += 2, ++weights) {
        const auto* const upper = reinterpret_cast<const __m256i*>(rows[tap] + column);
        const auto* const lower = reinterpret_cast<const __m256i*>(rows[std::min(tap + 1, taps - 1)] + column);
        const __m256i a = _mm256_loadu_si256(upper);
        const __m256i b = _mm256_loadu_si256(lower);
        const __m256i left = _mm256_unpacklo_epi8(a, b);
        const __m256i right = _mm256_unpackhi_epi8(a, b);
        const __m256i pixels[4] = {_mm256_unpacklo_epi8(left, zero), _mm256_unpackhi_epi8(left, zero),
                                   _mm256_unpacklo_epi8(right, zero), _mm256_unpackhi_epi8(right, zero)};
        const __m256i high_weights = _mm256_set1_epi32(weights->high);
        const __m256i low_weights = _mm256_set1_epi32(weights->low);
        for (int part = 0; part < 4; ++part) {
            high[part] = _mm256_add_epi32(high[part], _mm256_madd_epi16(pixels[part], high_weights));
            low[part] = _mm256_add_epi32(low[part], _mm256_madd_epi16(pixels[part], low_weights));
        }
    }
    // The packs undo the lane-wise unpacks above, so the bytes come out in order.
    return _mm256_packus_epi16(_mm256_packs_epi32(join(high[0], low[0]), join(high[1], low[1])),
                               _mm256_packs_epi32(join(high[2], low[2]), join(high[3], low[3])));
}

SPDL_AVX2 void vertical(const ResampleTable& table, int index, const std::uint8_t* const* rows, std::uint8_t* output,
                        std::size_t size) noexcept {
    const auto* const weights = reinterpret_cast<const WeightPair*>(table.packed.data()) +
                                static_cast<std::size_t>(index) * vertical_pairs(table);
    const int taps = table.taps[static_cast<std::size_t>(index)];
    const __m256i half = _mm256_set1_epi32(table.half);
    std::size_t column = 0;
    for (; column + kColumns <= size; column += kColumns) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(output + column),
                            vertical_columns(weights, taps, rows, column, half));
    }
    if (column < size) {
        alignas(kColumns) std::uint8_t rest[kColumns];
        _mm256_store_si256(reinterpret_cast<__m256i*>(rest), vertical_columns(weights, taps, rows, column, half));
        std::memcpy(output + column, rest, size - column);
    }
}

}  // namespace

void pack_vertical_avx2(ResampleTable& table) {
    pack_columns(table);
}

const Kernels kAvx2Kernels{"avx2",
                           has_avx2,
                           {pack_horizontal, horizontal},
                           {pack_plane_avx2, resample_plane_avx2},
                           &kAvx2Near,
                           pack_vertical_avx2,
                           vertical,
                           write_pixels_avx2,
                           write_colors_avx2,
                           &kAvx2Planes};

}  // namespace spdl

#endif
