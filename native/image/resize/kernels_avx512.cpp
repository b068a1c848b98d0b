#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/cpu_features.h"
#include "image/resize/kernels.h"

// The byte multiplier of this instruction set (VNNI) adds four products of an unsigned and a signed byte at once. Each
// 22-bit weight is split into three signed digits of base 256. Three sums of products, one per digit, then give the
// same exact integer as the scalar variant.
//
// As in the AVX2 variant, each function names its target.
#define SPDL_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vnni")))

namespace spdl {
namespace {

constexpr std::size_t kTaps = 4;      // Taps per product sum.
constexpr std::size_t kDigits = 3;    // Per weight.
constexpr std::size_t kOutputs = 16;  // Sums per vector.
constexpr std::size_t kVector = sizeof(__m512i);

bool supported() noexcept {
    return has_avx512_vnni() && has_avx2();
}

std::int32_t weight(const ResampleTable& table, std::size_t output, std::size_t tap) {
    return tap < static_cast<std::size_t>(table.taps[output]) ? table.weights[output * table.stride + tap] : 0;
}

// Writes the digits of a weight, lowest first, `step` bytes apart.
void split(std::int32_t weight, std::int8_t* digits, std::size_t step) {
    for (std::size_t digit = 0; digit < kDigits; ++digit) {
        const auto low = static_cast<std::int8_t>(static_cast<std::uint32_t>(weight) & 0xffU);
        digits[digit * step] = low;
        weight = (weight - low) >> 8;
    }
}

std::size_t quads(const ResampleTable& table) {
    return (static_cast<std::size_t>(table.max_taps) + kTaps - 1) / kTaps;
}

// Horizontally, a vector holds 16 consecutive bytes of the output row. A byte permutation brings each of them its four
// source bytes out of a window of one or two vectors. If the scale is too large for that window, the AVX2 variant takes
// over.
struct HorizontalStep {
    std::uint8_t sources[kVector];
    std::int8_t digits[kDigits][kVector];
};

// If one tap is left over, it is multiplied unchanged, which takes fewer instructions and less of the cache.
struct HorizontalRest {
    std::uint8_t sources[kVector];
    std::int32_t weights[kOutputs];
};

struct Parts {
    std::size_t steps;
    bool rest;

    [[nodiscard]] std::size_t bytes() const {
        return steps * sizeof(HorizontalStep) + (rest ? sizeof(HorizontalRest) : 0);
    }
};

Parts parts(const ResampleTable& table) {
    const auto taps = static_cast<std::size_t>(table.max_taps);
    return {(taps + 2) / kTaps, taps % kTaps == 1};
}

template <std::size_t kChannels>
std::size_t groups(const ResampleTable& table) {
    // A multiple of four: four of them fill a vector of bytes.
    return (kChannels * static_cast<std::size_t>(table.output) + 4 * kOutputs - 1) / (4 * kOutputs) * 4;
}

// Returns the pixel of byte `index` of the output row. Bytes beyond its end repeat the last pixel.
template <std::size_t kChannels>
std::size_t pixel(const ResampleTable& table, std::size_t index) {
    return std::min(index / kChannels, static_cast<std::size_t>(table.output) - 1);
}

// Returns where the window of a group begins.
template <std::size_t kChannels>
std::size_t group_base(const ResampleTable& table, std::size_t group) {
    const auto begin = static_cast<int>(pixel<kChannels>(table, group * kOutputs));
    const auto last = static_cast<int>(pixel<kChannels>(table, group * kOutputs + kOutputs - 1));
    return kChannels * static_cast<std::size_t>(table.firsts(begin, last - begin + 1).first);
}

template <std::size_t kChannels>
std::size_t windows(const ResampleTable& table) {
    std::size_t span = 0;
    for (std::size_t group = 0; group < groups<kChannels>(table); ++group) {
        for (std::size_t j = 0; j < kOutputs; ++j) {
            const std::size_t output = pixel<kChannels>(table, group * kOutputs + j);
            const auto end = kChannels * static_cast<std::size_t>(table.first[output] + table.taps[output]);
            span = std::max(span, end - group_base<kChannels>(table, group));
        }
    }
    const std::size_t needed = (span + kVector - 1) / kVector;
    return needed <= 2 ? needed : 0;
}

// The packed table starts with the places where the window of each group begins, padded to whole vectors.
std::size_t bases_bytes(std::size_t groups) {
    return (groups * sizeof(std::uint32_t) + kVector - 1) / kVector * kVector;
}

// The variant that takes over.
template <std::size_t kChannels>
const HorizontalPass& narrower() {
    return kChannels == 3 ? kAvx2Kernels.horizontal : kAvx2Kernels.plane;
}

template <std::size_t kChannels>
void pack_horizontal(ResampleTable& table) {
    table.packed_windows = windows<kChannels>(table);
    if (table.packed_windows == 0) {
        narrower<kChannels>().pack(table);
        return;
    }
    const std::size_t count = groups<kChannels>(table);
    const Parts part = parts(table);
    table.packed.reserve(bases_bytes(count) + count * part.bytes());
    auto* const bases = reinterpret_cast<std::uint32_t*>(table.packed.data());
    std::uint8_t* packed = table.packed.data() + bases_bytes(count);
    for (std::size_t group = 0; group < count; ++group, packed += part.bytes()) {
        const std::size_t base = group_base<kChannels>(table, group);
        bases[group] = static_cast<std::uint32_t>(base);
        auto* const steps = reinterpret_cast<HorizontalStep*>(packed);
        auto* const rest = reinterpret_cast<HorizontalRest*>(packed + part.steps * sizeof(HorizontalStep));
        for (std::size_t j = 0; j < kOutputs; ++j) {
            const std::size_t index = group * kOutputs + j;
            const std::size_t output = pixel<kChannels>(table, index);
            const std::size_t first =
                kChannels * static_cast<std::size_t>(table.first[output]) + index % kChannels - base;
            // Missing taps of an output point anywhere in the window; their weights are zero.
            const auto source = [&](std::size_t tap) { return static_cast<std::uint8_t>(first + kChannels * tap); };
            for (std::size_t tap = 0; tap < part.steps * kTaps; ++tap) {
                HorizontalStep& step = steps[tap / kTaps];
                const std::size_t at = j * kTaps + tap % kTaps;
                step.sources[at] = source(tap);
                split(weight(table, output, tap), &step.digits[0][at], kVector);
            }
            if (part.rest) {
                rest->sources[j * kTaps] = source(part.steps * kTaps);
                rest->weights[j] = weight(table, output, part.steps * kTaps);
            }
        }
    }
}

// The sum of the highest digit starts with the half for rounding: 32, which the two shifts in join turn into 1 << 21.
constexpr std::int32_t kRounding = 32;
static_assert((kRounding << 16) == 1 << (ResampleTable::kFractionBits - 1));

struct Digits {
    __m512i low;
    __m512i middle;
    __m512i high;
};

SPDL_AVX512 inline Digits no_sums() {
    return {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_set1_epi32(kRounding)};
}

SPDL_AVX512 inline void add_products(Digits& sums, __m512i pixels, const Digits& weights) {
    sums.low = _mm512_dpbusd_epi32(sums.low, pixels, weights.low);
    sums.middle = _mm512_dpbusd_epi32(sums.middle, pixels, weights.middle);
    sums.high = _mm512_dpbusd_epi32(sums.high, pixels, weights.high);
}

// The results, not yet clipped.
SPDL_AVX512 inline __m512i join(const Digits& sums) {
    const __m512i upper = _mm512_add_epi32(_mm512_slli_epi32(sums.high, 8), sums.middle);
    return _mm512_srai_epi32(_mm512_add_epi32(_mm512_slli_epi32(upper, 8), sums.low), ResampleTable::kFractionBits);
}

// Clips four vectors of results to bytes. The packs work lane by lane: each lane of the output has four bytes of each.
SPDL_AVX512 inline __m512i clip(__m512i a, __m512i b, __m512i c, __m512i d) {
    return _mm512_packus_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
}

template <std::size_t kWindows>
struct Window {
    __m512i bytes[kWindows];
};

// Brings the source bytes to their places.
template <std::size_t kWindows>
SPDL_AVX512 inline __m512i pick(__m512i sources, const Window<kWindows>& window) {
    return kWindows == 1 ? _mm512_permutexvar_epi8(sources, window.bytes[0])
                         : _mm512_permutex2var_epi8(window.bytes[0], sources, window.bytes[kWindows - 1]);
}

// Brings only the first of every four bytes: an integer.
template <std::size_t kWindows>
SPDL_AVX512 inline __m512i pick_integers(__m512i sources, const Window<kWindows>& window) {
    constexpr __mmask64 kFirst = 0x1111111111111111U;
    return kWindows == 1 ? _mm512_maskz_permutexvar_epi8(kFirst, sources, window.bytes[0])
                         : _mm512_maskz_permutex2var_epi8(kFirst, window.bytes[0], sources, window.bytes[kWindows - 1]);
}

// One vector of results per row, four vectors apart.
template <std::size_t kRows, std::size_t kWindows, std::size_t kSteps, bool kRest>
SPDL_AVX512 inline void sum_group(const std::uint8_t* packed, std::size_t steps, const std::uint8_t* const* sources,
                                  std::size_t base, __m512i* results) {
    Window<kWindows> windows[kRows];
    Digits sums[kRows];
    for (std::size_t row = 0; row < kRows; ++row) {
        for (std::size_t part = 0; part < kWindows; ++part) {
            windows[row].bytes[part] = _mm512_loadu_si512(sources[row] + base + part * kVector);
        }
        sums[row] = no_sums();
    }
    const auto* step = reinterpret_cast<const HorizontalStep*>(packed);
    for (std::size_t i = 0; i < (kSteps != 0 ? kSteps : steps); ++i, ++step) {
        const __m512i index = _mm512_load_si512(step->sources);
        const Digits weights{_mm512_load_si512(step->digits[0]), _mm512_load_si512(step->digits[1]),
                             _mm512_load_si512(step->digits[2])};
        for (std::size_t row = 0; row < kRows; ++row) {
            add_products(sums[row], pick(index, windows[row]), weights);
        }
    }
    if constexpr (kRest) {
        const auto* const rest = reinterpret_cast<const HorizontalRest*>(step);
        const __m512i index = _mm512_load_si512(rest->sources);
        const __m512i weights = _mm512_load_si512(rest->weights);
        for (std::size_t row = 0; row < kRows; ++row) {
            const __m512i taps = pick_integers(index, windows[row]);
            sums[row].low = _mm512_add_epi32(sums[row].low, _mm512_mullo_epi32(taps, weights));
        }
    }
    for (std::size_t row = 0; row < kRows; ++row) {
        results[4 * row] = join(sums[row]);
    }
}

// kSteps is the number of steps per group if it is known at compile time, otherwise 0.
template <std::size_t kChannels, std::size_t kRows, std::size_t kWindows, std::size_t kSteps, bool kRest>
SPDL_AVX512 void horizontal_rows(const ResampleTable& table, const std::uint8_t* const* sources,
                                 std::uint8_t* const* outputs) noexcept {
    // The packs work lane by lane; this puts the dwords of four vectors one vector after the other.
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const Parts part = parts(table);
    const std::size_t count = groups<kChannels>(table);
    const auto* const bases = reinterpret_cast<const std::uint32_t*>(table.packed.data());
    const std::uint8_t* packed = table.packed.data() + bases_bytes(count);
    for (std::size_t group = 0; group < count; group += 4) {
        __m512i results[kRows * 4];
        for (std::size_t i = 0; i < 4; ++i, packed += part.bytes()) {
            sum_group<kRows, kWindows, kSteps, kRest>(packed, part.steps, sources, bases[group + i], results + i);
        }
        for (std::size_t row = 0; row < kRows; ++row) {
            const __m512i* const result = results + 4 * row;
            const __m512i bytes = clip(result[0], result[1], result[2], result[3]);
            _mm512_storeu_si512(outputs[row] + group * kOutputs, _mm512_permutexvar_epi32(order, bytes));
        }
    }
}

template <std::size_t kChannels, std::size_t kRows, std::size_t kWindows>
void horizontal_parts(const ResampleTable& table, const std::uint8_t* const* sources,
                      std::uint8_t* const* outputs) noexcept {
    const Parts part = parts(table);
    if (part.steps == 1 && part.rest) {
        horizontal_rows<kChannels, kRows, kWindows, 1, true>(table, sources, outputs);
    } else if (part.steps == 2 && part.rest) {
        horizontal_rows<kChannels, kRows, kWindows, 2, true>(table, sources, outputs);
    } else if (part.rest) {
        horizontal_rows<kChannels, kRows, kWindows, 0, true>(table, sources, outputs);
    } else if (part.steps == 1) {
        horizontal_rows<kChannels, kRows, kWindows, 1, false>(table, sources, outputs);
    } else {
        horizontal_rows<kChannels, kRows, kWindows, 0, false>(table, sources, outputs);
    }
}

template <std::size_t kChannels, std::size_t kRows>
void horizontal_windows(const ResampleTable& table, const std::uint8_t* const* sources,
                        std::uint8_t* const* outputs) noexcept {
    if (table.packed_windows == 0) {
        narrower<kChannels>().resample(table, sources, outputs, static_cast<int>(kRows));
    } else if (table.packed_windows == 1) {
        horizontal_parts<kChannels, kRows, 1>(table, sources, outputs);
    } else {
        horizontal_parts<kChannels, kRows, 2>(table, sources, outputs);
    }
}

template <std::size_t kChannels>
void horizontal(const ResampleTable& table, const std::uint8_t* const* sources, std::uint8_t* const* outputs,
                int count) noexcept {
    if (count == 2) {
        horizontal_windows<kChannels, 2>(table, sources, outputs);
    } else {
        horizontal_windows<kChannels, 1>(table, sources, outputs);
    }
}

// Vertically, every column has the same weights: four taps of one digit are one 32-bit integer.
struct VerticalStep {
    std::int8_t digits[kDigits][kTaps];
};

void pack_vertical(ResampleTable& table) {
    const auto outputs = static_cast<std::size_t>(table.output);
    table.packed.reserve(outputs * quads(table) * sizeof(VerticalStep));
    auto* step = reinterpret_cast<VerticalStep*>(table.packed.data());
    for (std::size_t output = 0; output < outputs; ++output) {
        for (std::size_t quad = 0; quad < quads(table); ++quad, ++step) {
            for (std::size_t t = 0; t < kTaps; ++t) {
                split(weight(table, output, quad * kTaps + t), &step->digits[0][t], kTaps);
            }
        }
    }
}

SPDL_AVX512 inline __m512i broadcast(const std::int8_t (&digits)[kTaps]) {
    std::int32_t packed = 0;
    __builtin_memcpy(&packed, digits, sizeof(packed));
    return _mm512_set1_epi32(packed);
}

SPDL_AVX512 inline __m512i vertical_columns(const VerticalStep* step, std::size_t taps, const std::uint8_t* const* rows,
                                            std::size_t column) {
    Digits a = no_sums();
    Digits b = no_sums();
    Digits c = no_sums();
    Digits d = no_sums();
    for (std::size_t tap = 0; tap < taps; tap += kTaps, ++step) {
        const __m512i first = _mm512_loadu_si512(rows[tap] + column);
        const __m512i second = _mm512_loadu_si512(rows[std::min(tap + 1, taps - 1)] + column);
        const __m512i third = _mm512_loadu_si512(rows[std::min(tap + 2, taps - 1)] + column);
        const __m512i fourth = _mm512_loadu_si512(rows[std::min(tap + 3, taps - 1)] + column);
        const __m512i upper_left = _mm512_unpacklo_epi8(first, second);
        const __m512i upper_right = _mm512_unpackhi_epi8(first, second);
        const __m512i lower_left = _mm512_unpacklo_epi8(third, fourth);
        const __m512i lower_right = _mm512_unpackhi_epi8(third, fourth);
        const Digits weights{broadcast(step->digits[0]), broadcast(step->digits[1]), broadcast(step->digits[2])};
        add_products(a, _mm512_unpacklo_epi16(upper_left, lower_left), weights);
        add_products(b, _mm512_unpackhi_epi16(upper_left, lower_left), weights);
        add_products(c, _mm512_unpacklo_epi16(upper_right, lower_right), weights);
        add_products(d, _mm512_unpackhi_epi16(upper_right, lower_right), weights);
    }
    // The packs undo the lane-wise unpacks above, so the bytes come out in order.
    return clip(join(a), join(b), join(c), join(d));
}

SPDL_AVX512 void vertical(const ResampleTable& table, int index, const std::uint8_t* const* rows, std::uint8_t* output,
                          std::size_t size) noexcept {
    const auto at = static_cast<std::size_t>(index);
    const auto* const step = reinterpret_cast<const VerticalStep*>(table.packed.data()) + at * quads(table);
    const auto taps = static_cast<std::size_t>(table.taps[at]);
    std::size_t column = 0;
    for (; column + kVector <= size; column += kVector) {
        _mm512_storeu_si512(output + column, vertical_columns(step, taps, rows, column));
    }
    if (column < size) {
        const __mmask64 rest = ~__mmask64{0} >> (kVector - (size - column));
        _mm512_mask_storeu_epi8(output + column, rest, vertical_columns(step, taps, rows, column));
    }
}

}  // namespace

const Kernels kAvx512Kernels{"avx512",
                             supported,
                             {pack_horizontal<3>, horizontal<3>},
                             {pack_horizontal<1>, horizontal<1>},
                             nullptr,
                             pack_vertical,
                             vertical,
                             write_pixels_avx512,
                             write_colors_avx512,
                             &kAvx512Planes};

}  // namespace spdl

#endif
