#include "av/scaling.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

// The byte multiplier of this instruction set (VNNI) adds four products of an unsigned and a signed byte at once. A
// weight of 15 bits is split into two signed digits of base 256.
#define SPDL_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vnni")))

namespace spdl {
namespace {

constexpr int kTaps = 4;     // Per product sum.
constexpr int kBytes = 128;  // Of a window: what one permutation picks from.
constexpr std::size_t kVector = sizeof(__m512i);

// Four taps of each output of a group.
struct Step {
    alignas(kVector) std::int8_t high[kVector];
    std::int8_t low[kVector];
};

// The outputs of a group. Each half has its own window if one is too narrow for both.
struct Group {
    alignas(kVector) std::uint8_t places[kVector];  // In the window, of the taps of the first step.
    int begin[2];                                   // Of the windows in the row.
    std::uint64_t inside[2][2];                     // Which bytes of each half of a window are in the row.
};

struct WeightsLayout {
    int groups;
    int steps;
    int windows;

    [[nodiscard]] std::size_t group_bytes() const {
        return sizeof(Group) + static_cast<std::size_t>(steps) * sizeof(Step);
    }
};

// Returns how many bytes a window must have for that many outputs together.
int span(const ScalingWeights& weights, int steps, int together) {
    const int outputs = static_cast<int>(weights.first.size());
    int widest = 0;
    for (int begin = 0; begin < outputs; begin += together) {
        const int last = std::min(begin + together, outputs) - 1;
        widest = std::max(widest, weights.first[static_cast<std::size_t>(last)] -
                                      weights.first[static_cast<std::size_t>(begin)] + steps * kTaps);
    }
    return widest;
}

// No windows if none is wide enough.
WeightsLayout layout_of(const ScalingWeights& weights) {
    const int outputs = static_cast<int>(weights.first.size());
    WeightsLayout layout{(outputs + kSwsGroup - 1) / kSwsGroup, 0, 0};
    for (std::size_t i = 0; i < weights.weights.size(); ++i) {
        if (weights.weights[i] != 0) {
            layout.steps = std::max(layout.steps, static_cast<int>(i) % weights.taps / kTaps + 1);
        }
    }
    for (const int windows : {1, 2}) {
        if (layout.windows == 0 && span(weights, layout.steps, kSwsGroup / windows) <= kBytes) {
            layout.windows = windows;
        }
    }
    return layout;
}

std::uint64_t lowest(int bits) {
    return bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << std::max(bits, 0)) - 1;
}

void pack_group(const SwsRowWeights& weights, const WeightsLayout& layout, int first, Group& group, Step* steps) {
    const ScalingWeights& plain = weights.plain;
    const int together = kSwsGroup / layout.windows;
    for (int at = 0; at < kSwsGroup; ++at) {
        // Behind the last output, it is repeated.
        const auto output = std::min(static_cast<std::size_t>(first + at), plain.first.size() - 1);
        const int half = at / together;
        if (at % together == 0) {
            group.begin[half] = plain.first[output];
            for (int part = 0; part < 2; ++part) {
                group.inside[half][part] = lowest(weights.inputs - group.begin[half] - part * 64);
            }
        }
        for (int tap = 0; tap < layout.steps * kTaps; ++tap) {
            const auto place = static_cast<std::size_t>(at * kTaps + tap % kTaps);
            if (tap < kTaps) {
                group.places[place] = static_cast<std::uint8_t>(plain.first[output] - group.begin[half] + tap);
            }
            const int weight =
                plain.weights[output * static_cast<std::size_t>(plain.taps) + static_cast<std::size_t>(tap)];
            Step& step = steps[tap / kTaps];
            step.low[place] = static_cast<std::int8_t>(weight);
            step.high[place] = static_cast<std::int8_t>((weight - step.low[place]) >> 8);
        }
    }
}

struct Window {
    __m512i bytes[2];
};

SPDL_AVX512 inline Window load(const std::uint8_t* row, const Group& group, std::size_t half) {
    const std::uint8_t* const at = row + group.begin[half];
    return {{_mm512_maskz_loadu_epi8(group.inside[half][0], at),
             _mm512_maskz_loadu_epi8(group.inside[half][1], at + kVector)}};
}

SPDL_AVX512 inline __m512i pick(const Window& window, __m512i places) {
    return _mm512_permutex2var_epi8(window.bytes[0], places, window.bytes[1]);
}

template <std::size_t kRows, std::size_t kWindows>
SPDL_AVX512 void scale_rows(const SwsRowWeights& weights, const WeightsLayout& layout, const std::uint8_t* const* rows,
                            std::int16_t* const* to, int begin, int end) {
    constexpr __mmask16 kSecondHalf = 0xFF00;
    const __m512i next = _mm512_set1_epi8(kTaps);
    for (int output = begin; output < end; output += kSwsGroup) {
        const std::uint8_t* const packed =
            weights.packed.data() + static_cast<std::size_t>(output / kSwsGroup) * layout.group_bytes();
        const Group& group = *reinterpret_cast<const Group*>(packed);
        const auto* step = reinterpret_cast<const Step*>(packed + sizeof(Group));
        Window windows[kRows][kWindows];
        __m512i high[kRows];
        __m512i low[kRows];
        for (std::size_t row = 0; row < kRows; ++row) {
            for (std::size_t half = 0; half < kWindows; ++half) {
                windows[row][half] = load(rows[row], group, half);
            }
            high[row] = _mm512_setzero_si512();
            low[row] = _mm512_setzero_si512();
        }
        __m512i places = _mm512_load_si512(group.places);
        for (int i = 0; i < layout.steps; ++i, ++step) {
            const __m512i by_high = _mm512_load_si512(step->high);
            const __m512i by_low = _mm512_load_si512(step->low);
            for (std::size_t row = 0; row < kRows; ++row) {
                __m512i samples = pick(windows[row][0], places);
                if constexpr (kWindows == 2) {
                    samples = _mm512_mask_mov_epi32(samples, kSecondHalf, pick(windows[row][1], places));
                }
                high[row] = _mm512_dpbusd_epi32(high[row], samples, by_high);
                low[row] = _mm512_dpbusd_epi32(low[row], samples, by_low);
            }
            places = _mm512_add_epi8(places, next);
        }
        for (std::size_t row = 0; row < kRows; ++row) {
            const __m512i sums = _mm512_add_epi32(_mm512_slli_epi32(high[row], 8), low[row]);
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(to[row] + output - begin),
                                _mm512_cvtsepi32_epi16(_mm512_srai_epi32(sums, 7)));
        }
    }
}

template <std::size_t kWindows>
void scale_all(const SwsRowWeights& weights, const WeightsLayout& layout, const std::uint8_t* const* rows,
               std::int16_t* const* to, int num_rows, int begin, int end) {
    int row = 0;
    for (; row + 4 <= num_rows; row += 4) {
        scale_rows<4, kWindows>(weights, layout, rows + row, to + row, begin, end);
    }
    for (; row + 2 <= num_rows; row += 2) {
        scale_rows<2, kWindows>(weights, layout, rows + row, to + row, begin, end);
    }
    if (row < num_rows) {
        scale_rows<1, kWindows>(weights, layout, rows + row, to + row, begin, end);
    }
}

}  // namespace

void pack_sws_weights_avx512(SwsRowWeights& weights) {
    const WeightsLayout layout = layout_of(weights.plain);
    if (layout.windows == 0) {
        return;
    }
    // The layout is at the end, after the groups.
    const std::size_t groups = static_cast<std::size_t>(layout.groups) * layout.group_bytes();
    weights.packed = AlignedBuffer(groups + sizeof(WeightsLayout));
    for (int i = 0; i < layout.groups; ++i) {
        std::uint8_t* const packed = weights.packed.data() + static_cast<std::size_t>(i) * layout.group_bytes();
        pack_group(weights, layout, i * kSwsGroup, *reinterpret_cast<Group*>(packed),
                   reinterpret_cast<Step*>(packed + sizeof(Group)));
    }
    *reinterpret_cast<WeightsLayout*>(weights.packed.data() + groups) = layout;
}

void scale_sws_rows_avx512(const SwsRowWeights& weights, const std::uint8_t* const* rows, std::int16_t* const* to,
                           int num_rows, int begin, int end) {
    if (weights.packed.size() == 0) {
        kAvx2SwsKernels.scale(weights, rows, to, num_rows, begin, end);
        return;
    }
    const WeightsLayout& layout =
        *reinterpret_cast<const WeightsLayout*>(weights.packed.data() + weights.packed.size() - sizeof(WeightsLayout));
    const auto scale = layout.windows == 1 ? scale_all<1> : scale_all<2>;
    scale(weights, layout, rows, to, num_rows, begin, end);
}

}  // namespace spdl

#endif
