#if defined(__x86_64__)

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "image/resize/kernels_avx2.h"

// The horizontal pass of a single channel. A 128-bit lane holds four neighbouring outputs. They share a load of 16
// bytes; a byte shuffle brings each its next pair of taps. It is the same shuffle for every pair, as the load moves on
// with them. If four outputs are too far apart for that, the portable variant takes over.

namespace spdl {
namespace {

constexpr int kLane = 4;
constexpr int kVector = 2 * kLane;
constexpr int kVectors = 2;
constexpr int kGroup = kVectors * kVector;  // Outputs at a time.
constexpr int kLoad = 16;

struct Weights {
    std::int32_t high[kVector];
    std::int32_t low[kVector];
};

// Followed by the weights of each pair of taps.
struct alignas(32) VectorHead {
    std::uint8_t shuffle[kVector][4];
    std::int32_t base[2];  // Where the loads of the lanes begin.
};

int pairs(const ResampleTable& table) {
    return (table.max_taps + 1) / 2;
}

// Returns the output in a place of a vector of the group that begins at `group`. The order is the one in which the
// packs of the result take them up. Beyond the last output, any one will do.
std::size_t output_at(const ResampleTable& table, int group, int vector, int place) {
    const int output = group + kLane * vector + place % kLane + (place < kLane ? 0 : kVector);
    return static_cast<std::size_t>(std::min(output, table.output - 1));
}

// Returns the least and the greatest first sample of the outputs of a lane.
std::pair<std::int32_t, std::int32_t> lane_span(const ResampleTable& table, int group, int vector, int lane) {
    return table.firsts(group + kLane * vector + kVector * lane, kLane);
}

bool fits(const ResampleTable& table) {
    for (int group = 0; group < table.output; group += kGroup) {
        for (int lane = 0; lane < 2 * kVectors; ++lane) {
            const auto [least, greatest] = lane_span(table, group, lane / 2, lane % 2);
            if (greatest - least > kLoad - 2) {
                return false;
            }
        }
    }
    return true;
}

struct Sums {
    __m256i high;
    __m256i low;
};

template <std::size_t kRows>
SPDL_AVX2 void resample_rows(const ResampleTable& table, const std::uint8_t* const* sources,
                             std::uint8_t* const* outputs) {
    const __m256i half = _mm256_set1_epi32(table.half);
    const int count = pairs(table);
    const std::uint8_t* packed = table.packed.data();
    for (int output = 0; output < table.output; output += kGroup) {
        __m256i results[kVectors][kRows];
        for (auto& result : results) {
            const auto* const head = reinterpret_cast<const VectorHead*>(packed);
            packed += sizeof(VectorHead);
            const __m256i shuffle = _mm256_load_si256(reinterpret_cast<const __m256i*>(head->shuffle));
            Sums sums[kRows];
            std::fill_n(sums, kRows, Sums{_mm256_setzero_si256(), half});
            for (std::ptrdiff_t pair = 0; pair < count; ++pair, packed += sizeof(Weights)) {
                const auto* const weights = reinterpret_cast<const __m256i*>(packed);
                for (std::size_t row = 0; row < kRows; ++row) {
                    const std::uint8_t* const source = sources[row] + 2 * pair;
                    const __m256i bytes = _mm256_inserti128_si256(
                        _mm256_castsi128_si256(
                            _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + head->base[0]))),
                        _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + head->base[1])), 1);
                    const __m256i taps = _mm256_shuffle_epi8(bytes, shuffle);
                    Sums& sum = sums[row];
                    sum.high = _mm256_add_epi32(sum.high, _mm256_madd_epi16(taps, _mm256_load_si256(weights)));
                    sum.low = _mm256_add_epi32(sum.low, _mm256_madd_epi16(taps, _mm256_load_si256(weights + 1)));
                }
            }
            for (std::size_t row = 0; row < kRows; ++row) {
                result[row] = join(sums[row].high, sums[row].low);
            }
        }
        for (std::size_t row = 0; row < kRows; ++row) {
            const __m256i words = _mm256_packs_epi32(results[0][row], results[1][row]);
            const __m256i bytes = _mm256_packus_epi16(words, words);
            std::uint8_t* const to = outputs[row] + output;
            _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(bytes));
            _mm_storel_epi64(reinterpret_cast<__m128i*>(to + kVector), _mm256_extracti128_si256(bytes, 1));
        }
    }
}

}  // namespace

void pack_plane_avx2(ResampleTable& table) {
    constexpr std::uint8_t kNone = 0xff;
    table.lanes_fit = fits(table);
    if (!table.lanes_fit) {
        kScalarKernels.plane.pack(table);
        return;
    }
    const auto groups = static_cast<std::size_t>((table.output + kGroup - 1) / kGroup);
    const auto count = static_cast<std::size_t>(pairs(table));
    table.packed.reserve(groups * kVectors * (sizeof(VectorHead) + count * sizeof(Weights)));
    std::uint8_t* packed = table.packed.data();
    for (int group = 0; group < table.output; group += kGroup) {
        for (int vector = 0; vector < kVectors; ++vector) {
            auto* const head = reinterpret_cast<VectorHead*>(packed);
            packed += sizeof(VectorHead);
            for (int place = 0; place < kVector; ++place) {
                const std::int32_t base = lane_span(table, group, vector, place / kLane).first;
                head->base[place / kLane] = base;
                const auto at = static_cast<std::uint8_t>(table.first[output_at(table, group, vector, place)] - base);
                std::uint8_t* const shuffle = head->shuffle[place];
                shuffle[0] = at;
                shuffle[1] = kNone;
                shuffle[2] = static_cast<std::uint8_t>(at + 1);
                shuffle[3] = kNone;
            }
            for (int pair = 0; pair < pairs(table); ++pair, packed += sizeof(Weights)) {
                auto* const weights = reinterpret_cast<Weights*>(packed);
                for (int place = 0; place < kVector; ++place) {
                    const WeightPair both = weight_pair(table, output_at(table, group, vector, place), 2 * pair);
                    weights->high[place] = both.high;
                    weights->low[place] = both.low;
                }
            }
        }
    }
}

void resample_plane_avx2(const ResampleTable& table, const std::uint8_t* const* sources, std::uint8_t* const* outputs,
                         int count) noexcept {
    if (!table.lanes_fit) {
        kScalarKernels.plane.resample(table, sources, outputs, count);
    } else if (count == 2) {
        resample_rows<2>(table, sources, outputs);
    } else {
        resample_rows<1>(table, sources, outputs);
    }
}

}  // namespace spdl

#endif
