#include "av/scaling.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstring>

#include "core/cpu_features.h"

#define SPDL_AVX2 __attribute__((target("avx2")))

namespace spdl {
namespace {

SPDL_AVX2 inline __m256i product16(const std::uint8_t* samples, const std::int16_t* weights) {
    const __m256i wide = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(samples)));
    return _mm256_madd_epi16(wide, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights)));
}

SPDL_AVX2 inline __m128i product8(const std::uint8_t* samples, const std::int16_t* weights) {
    const __m128i wide = _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(samples)));
    return _mm_madd_epi16(wide, _mm_loadu_si128(reinterpret_cast<const __m128i*>(weights)));
}

// Returns eight sums that add up to the sum of all taps.
template <int kTaps>
SPDL_AVX2 inline __m256i products(const std::uint8_t* samples, const std::int16_t* weights) {
    __m256i sum = product16(samples, weights);
    int tap = 16;
    for (; tap + 16 <= kTaps; tap += 16) {
        sum = _mm256_add_epi32(sum, product16(samples + tap, weights + tap));
    }
    if constexpr (kTaps % 16 == 8) {
        sum = _mm256_add_epi32(sum, _mm256_zextsi128_si256(product8(samples + tap, weights + tap)));
    }
    return sum;
}

// Returns the sums of eight outputs.
template <int kTaps>
SPDL_AVX2 inline __m256i eight_sums(const std::uint8_t* row, const int* first, const std::int16_t* weights) {
    if constexpr (kTaps == 8) {
        __m256i two[4];
        for (int i = 0; i < 4; ++i) {
            two[i] = _mm256_set_m128i(product8(row + first[i + 4], weights + (i + 4) * kTaps),
                                      product8(row + first[i], weights + i * kTaps));
        }
        return _mm256_hadd_epi32(_mm256_hadd_epi32(two[0], two[1]), _mm256_hadd_epi32(two[2], two[3]));
    } else {
        __m256i four[2];
        for (int half = 0; half < 2; ++half) {
            __m256i each[4];
            for (int i = 0; i < 4; ++i) {
                each[i] = products<kTaps>(row + first[4 * half + i], weights + (4 * half + i) * kTaps);
            }
            four[half] = _mm256_hadd_epi32(_mm256_hadd_epi32(each[0], each[1]), _mm256_hadd_epi32(each[2], each[3]));
        }
        return _mm256_add_epi32(_mm256_permute2x128_si256(four[0], four[1], 0x20),
                                _mm256_permute2x128_si256(four[0], four[1], 0x31));
    }
}

template <int kTaps>
SPDL_AVX2 void scale_row(const std::uint8_t* row, const int* first, const std::int16_t* weights, int count,
                         std::int16_t* to) {
    int at = 0;
    for (; at + 8 <= count; at += 8, weights += 8 * kTaps) {
        const __m256i sums = _mm256_srai_epi32(eight_sums<kTaps>(row, first + at, weights), 7);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to + at),
                         _mm_packs_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1)));
    }
    for (; at < count; ++at, weights += kTaps) {
        int sum = 0;
        for (int tap = 0; tap < kTaps; ++tap) {
            sum += row[first[at] + tap] * weights[tap];
        }
        to[at] = static_cast<std::int16_t>(sum >> 7 > INT16_MAX ? INT16_MAX : sum >> 7);
    }
}

void scale(const SwsRowWeights& weights, const std::uint8_t* const* rows, std::int16_t* const* to, int num_rows,
           int begin, int end) {
    const ScalingWeights& plain = weights.plain;
    const auto scale_each = [&](auto taps) {
        for (int row = 0; row < num_rows; ++row) {
            scale_row<taps>(rows[row], plain.first.data() + begin,
                            plain.weights.data() + static_cast<std::ptrdiff_t>(begin) * taps, end - begin, to[row]);
        }
    };
    switch (plain.taps) {
        case 8:
            return scale_each(std::integral_constant<int, 8>());
        case 16:
            return scale_each(std::integral_constant<int, 16>());
        case 24:
            return scale_each(std::integral_constant<int, 24>());
        case 32:
            return scale_each(std::integral_constant<int, 32>());
        case 40:
            return scale_each(std::integral_constant<int, 40>());
        case 48:
            return scale_each(std::integral_constant<int, 48>());
        case 56:
            return scale_each(std::integral_constant<int, 56>());
        default:
            return scale_each(std::integral_constant<int, kMostSwsTaps>());
    }
}

// Sixteen levels of a column. `low` has the first four of each half, `high` the others.
struct Levels {
    __m256i low;
    __m256i high;
};

SPDL_AVX2 inline Levels mix_levels(const std::int16_t* const* rows, const std::int16_t* weights, int taps, int at) {
    constexpr int kBits = 19;
    Levels sum{_mm256_set1_epi32(1 << (kBits - 1)), _mm256_set1_epi32(1 << (kBits - 1))};
    for (int tap = 0; tap < taps; tap += 2) {
        const __m256i one = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows[tap] + at));
        const __m256i other = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows[tap + 1] + at));
        std::int32_t pair = 0;
        std::memcpy(&pair, weights + tap, sizeof(pair));
        const __m256i both = _mm256_set1_epi32(pair);
        sum.low = _mm256_add_epi32(sum.low, _mm256_madd_epi16(_mm256_unpacklo_epi16(one, other), both));
        sum.high = _mm256_add_epi32(sum.high, _mm256_madd_epi16(_mm256_unpackhi_epi16(one, other), both));
    }
    return {_mm256_srai_epi32(sum.low, kBits), _mm256_srai_epi32(sum.high, kBits)};
}

SPDL_AVX2 inline void store(std::int16_t* to, __m256i low, __m256i high) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_packs_epi32(low, high));
}

// By how many levels chroma moves luma.
SPDL_AVX2 inline __m256i shift_of(__m256i chroma, std::int32_t each) {
    const __m256i moved = _mm256_srai_epi32(_mm256_mullo_epi32(chroma, _mm256_set1_epi32(each)), 16);
    return _mm256_sub_epi32(moved, _mm256_set1_epi32(each >> 9));
}

SPDL_AVX2 inline __m256i clamp(__m256i levels) {
    return _mm256_min_epi32(_mm256_max_epi32(levels, _mm256_setzero_si256()), _mm256_set1_epi32(255));
}

// Returns one colour of sixteen pixels; each two share a shift.
SPDL_AVX2 inline __m128i color(const std::int16_t* luma, const std::int16_t* shifts, const SwsYuvColors& colors) {
    const __m128i each = _mm_loadu_si128(reinterpret_cast<const __m128i*>(shifts));
    const __m256i twice = _mm256_set_m128i(_mm_unpackhi_epi16(each, each), _mm_unpacklo_epi16(each, each));
    const __m256i sum = _mm256_add_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(luma)), twice);
    const __m256i slope = _mm256_set1_epi32(colors.slope);
    const __m256i start = _mm256_set1_epi32(colors.start);
    const auto line = [&](__m128i half) SPDL_AVX2 {
        const __m256i product = _mm256_mullo_epi32(_mm256_cvtepi16_epi32(half), slope);
        return _mm256_srai_epi32(_mm256_add_epi32(product, start), 16);
    };
    const __m256i words = _mm256_permute4x64_epi64(
        _mm256_packs_epi32(line(_mm256_castsi256_si128(sum)), line(_mm256_extracti128_si256(sum, 1))), 0xD8);
    return _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}

// For each colour and each third of 48 bytes: which of sixteen values is at a place, or -1.
struct Places {
    alignas(16) std::int8_t of[3][3][16];
};
constexpr Places kPlaces = [] {
    Places places{};
    for (int color = 0; color < 3; ++color) {
        for (int byte = 0; byte < 48; ++byte) {
            places.of[color][byte / 16][byte % 16] = static_cast<std::int8_t>(byte % 3 == color ? byte / 3 : -1);
        }
    }
    return places;
}();

// Writes sixteen pixels.
SPDL_AVX2 inline void interleave(__m128i red, __m128i green, __m128i blue, std::uint8_t* to) {
    const auto pick = [](__m128i plane, const std::int8_t* places) SPDL_AVX2 {
        return _mm_shuffle_epi8(plane, _mm_load_si128(reinterpret_cast<const __m128i*>(places)));
    };
    for (int third = 0; third < 3; ++third) {
        const __m128i mixed =
            _mm_or_si128(_mm_or_si128(pick(red, kPlaces.of[0][third]), pick(green, kPlaces.of[1][third])),
                         pick(blue, kPlaces.of[2][third]));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 16 * third), mixed);
    }
}

SPDL_AVX2 void mix(const SwsRowsIn& in, const SwsYuvColors& colors, int width, std::int16_t* scratch,
                   std::uint8_t* to) {
    constexpr int kSlack = static_cast<int>(kSwsRowSlack);
    std::int16_t* const luma = scratch;
    std::int16_t* const red = luma + width + kSlack;
    std::int16_t* const green = red + width / 2 + kSlack / 2;
    std::int16_t* const blue = green + width / 2 + kSlack / 2;
    for (int at = 0; at < width; at += 16) {
        const Levels y = mix_levels(in.luma, in.luma_weights, in.luma_taps, at);
        store(luma + at, y.low, y.high);
    }
    for (int at = 0; at < width / 2; at += 16) {
        const Levels u = mix_levels(in.u, in.chroma_weights, in.chroma_taps, at);
        const Levels v = mix_levels(in.v, in.chroma_weights, in.chroma_taps, at);
        const Levels cu{clamp(u.low), clamp(u.high)};
        const Levels cv{clamp(v.low), clamp(v.high)};
        store(red + at, shift_of(cv.low, colors.red_of_v), shift_of(cv.high, colors.red_of_v));
        store(green + at, _mm256_add_epi32(shift_of(cu.low, colors.green_of_u), shift_of(cv.low, colors.green_of_v)),
              _mm256_add_epi32(shift_of(cu.high, colors.green_of_u), shift_of(cv.high, colors.green_of_v)));
        store(blue + at, shift_of(cu.low, colors.blue_of_u), shift_of(cu.high, colors.blue_of_u));
    }
    for (int at = 0; at < width; at += 16) {
        std::uint8_t last[48];
        const bool whole = at + 16 <= width;
        interleave(color(luma + at, red + at / 2, colors), color(luma + at, green + at / 2, colors),
                   color(luma + at, blue + at / 2, colors), whole ? to + 3 * at : last);
        if (!whole) {
            std::memcpy(to + 3 * at, last, static_cast<std::size_t>(3 * (width - at)));
        }
    }
}

// Writes sixteen levels, as far as the row reaches.
SPDL_AVX2 inline void store_levels(__m256i levels, int at, int width, std::uint8_t* to) {
    const __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(levels), _mm256_extracti128_si256(levels, 1));
    if (at + 16 <= width) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to + at), bytes);
    } else {
        std::uint8_t last[16];
        _mm_storeu_si128(reinterpret_cast<__m128i*>(last), bytes);
        std::memcpy(to + at, last, static_cast<std::size_t>(width - at));
    }
}

SPDL_AVX2 void mix_plane(const std::int16_t* const* rows, const std::int16_t* weights, int taps, int start, int width,
                         std::uint8_t* to) {
    for (int at = 0; at < width; at += 16) {
        __m256i sum = _mm256_set1_epi16(static_cast<std::int16_t>(start));
        for (int tap = 0; tap < taps; ++tap) {
            const __m256i row = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows[tap] + at));
            sum = _mm256_add_epi16(sum, _mm256_mulhi_epi16(row, _mm256_set1_epi16(weights[tap])));
        }
        store_levels(_mm256_srai_epi16(sum, 3), at, width, to);
    }
}

SPDL_AVX2 void round_plane(const std::int16_t* const* rows, const std::int16_t* weights, int taps, int /*start*/,
                           int width, std::uint8_t* to) {
    for (int at = 0; at < width; at += 16) {
        const Levels levels = mix_levels(rows, weights, taps, at);
        store_levels(_mm256_packs_epi32(levels.low, levels.high), at, width, to);
    }
}

constexpr SwsKernels kAvx512{pack_sws_weights_avx512, scale_sws_rows_avx512, mix, mix_plane, round_plane};

}  // namespace

constexpr SwsKernels kAvx2SwsKernels{[](SwsRowWeights& /*weights*/) {}, scale, mix, mix_plane, round_plane};

const SwsKernels* sws_kernels() {
    if (!has_avx2()) {
        return nullptr;
    }
    return has_avx512_vnni() ? &kAvx512 : &kAvx2SwsKernels;
}

}  // namespace spdl

#else

namespace spdl {

const SwsKernels* sws_kernels() {
    return nullptr;
}

}  // namespace spdl

#endif
