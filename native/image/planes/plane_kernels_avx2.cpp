#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "image/planes/plane_kernels.h"
#include "image/write/packed_pixels_avx2.h"

namespace spdl {
namespace {

SPDL_AVX2 inline __m256i load(const void* from) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}

SPDL_AVX2 inline __m128i load_half(const void* from) {
    return _mm_loadu_si128(static_cast<const __m128i*>(from));
}

SPDL_AVX2 inline __m256i load_halves(const void* low, const void* high) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load_half(low)), load_half(high), 1);
}

SPDL_AVX2 inline void store(FineLevel* to, __m128i levels) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), levels);
}

// Puts what a pack made of two vectors one after the other, as packs work lane by lane.
SPDL_AVX2 inline __m256i in_order(__m256i packed) {
    return _mm256_permute4x64_epi64(packed, 0b11'01'10'00);
}

constexpr std::size_t kColumns = 32;

// kCount is the number of pairs of rows if it is known at compile time, otherwise 0.
template <int kCount>
SPDL_AVX2 inline void shorten_columns(const std::int32_t* weights, int count, const std::uint8_t* const* rows,
                                      FineLevel* output, std::size_t column) {
    constexpr int kShift = fine::kBits - kFineBits;
    const __m256i zero = _mm256_setzero_si256();
    const __m256i half = _mm256_set1_epi32(1 << (kShift - 1));
    __m256i sums[4] = {half, half, half, half};
    for (int pair = 0; pair < (kCount != 0 ? kCount : count); ++pair) {
        const __m256i upper = load(rows[2 * pair] + column);
        const __m256i lower = load(rows[2 * pair + 1] + column);
        const __m256i left = _mm256_unpacklo_epi8(upper, lower);
        const __m256i right = _mm256_unpackhi_epi8(upper, lower);
        const __m256i both = _mm256_set1_epi32(weights[pair]);
        sums[0] = _mm256_add_epi32(sums[0], _mm256_madd_epi16(_mm256_unpacklo_epi8(left, zero), both));
        sums[1] = _mm256_add_epi32(sums[1], _mm256_madd_epi16(_mm256_unpackhi_epi8(left, zero), both));
        sums[2] = _mm256_add_epi32(sums[2], _mm256_madd_epi16(_mm256_unpacklo_epi8(right, zero), both));
        sums[3] = _mm256_add_epi32(sums[3], _mm256_madd_epi16(_mm256_unpackhi_epi8(right, zero), both));
    }
    // Columns 0 to 7 and 16 to 23, and the others.
    const __m256i even = _mm256_packs_epi32(_mm256_srai_epi32(sums[0], kShift), _mm256_srai_epi32(sums[1], kShift));
    const __m256i odd = _mm256_packs_epi32(_mm256_srai_epi32(sums[2], kShift), _mm256_srai_epi32(sums[3], kShift));
    store(output + column, _mm256_castsi256_si128(even));
    store(output + column + 8, _mm256_castsi256_si128(odd));
    store(output + column + 16, _mm256_extracti128_si256(even, 1));
    store(output + column + 24, _mm256_extracti128_si256(odd, 1));
}

template <int kCount>
SPDL_AVX2 void shorten_rows(const std::int32_t* weights, int count, const std::uint8_t* const* rows, FineLevel* output,
                            std::size_t size) {
    for (std::size_t column = 0; column + kColumns <= size; column += kColumns) {
        shorten_columns<kCount>(weights, count, rows, output, column);
    }
    if (size % kColumns != 0) {
        // Some of the columns once more.
        shorten_columns<kCount>(weights, count, rows, output, size - kColumns);
    }
}

SPDL_AVX2 void shorten(const std::int32_t* weights, int count, const std::uint8_t* const* rows, FineLevel* output,
                       std::size_t size) noexcept {
    if (size < kColumns) {
        kScalarPlanes.shorten(weights, count, rows, output, size);
        return;
    }
    switch (count) {
        case 1:
            return shorten_rows<1>(weights, count, rows, output, size);
        case 2:
            return shorten_rows<2>(weights, count, rows, output, size);
        case 3:
            return shorten_rows<3>(weights, count, rows, output, size);
        case 4:
            return shorten_rows<4>(weights, count, rows, output, size);
        default:
            return shorten_rows<0>(weights, count, rows, output, size);
    }
}

constexpr int kOutputs = 8;  // At a time, and their sums are a vector.

// The sums of eight outputs of four taps.
SPDL_AVX2 inline __m256i sum_few(const FineLevel* row, const std::int32_t* first, const std::int16_t* weights) {
    __m256i sums[2];
    for (int part = 0; part < 2; ++part, first += 2, weights += 8) {
        const __m128i low = _mm_unpacklo_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(row + first[0])),
                                               _mm_loadl_epi64(reinterpret_cast<const __m128i*>(row + first[1])));
        const __m128i high = _mm_unpacklo_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(row + first[4])),
                                                _mm_loadl_epi64(reinterpret_cast<const __m128i*>(row + first[5])));
        const __m256i taps = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
        sums[part] = _mm256_madd_epi16(taps, load_halves(weights, weights + 16));
    }
    return _mm256_hadd_epi32(sums[0], sums[1]);
}

// Of eight taps.
SPDL_AVX2 inline __m256i sum_some(const FineLevel* row, const std::int32_t* first, const std::int16_t* weights) {
    __m256i sums[4];
    for (int part = 0; part < 4; ++part, ++first, weights += 8) {
        sums[part] = _mm256_madd_epi16(load_halves(row + first[0], row + first[4]), load_halves(weights, weights + 32));
    }
    return _mm256_hadd_epi32(_mm256_hadd_epi32(sums[0], sums[1]), _mm256_hadd_epi32(sums[2], sums[3]));
}

// Of that many times 16 taps.
template <int kTimes>
SPDL_AVX2 inline __m256i sum_many(const FineLevel* row, const std::int32_t* first, const std::int16_t* weights,
                                  int times) {
    __m256i halves[2];
    for (__m256i& half : halves) {
        __m256i sums[4];
        for (__m256i& sum : sums) {
            const FineLevel* source = row + *first++;
            sum = _mm256_madd_epi16(load(source), load(weights));
            weights += 16;
            for (int time = 1; time < (kTimes != 0 ? kTimes : times); ++time, weights += 16) {
                source += 16;
                sum = _mm256_add_epi32(sum, _mm256_madd_epi16(load(source), load(weights)));
            }
        }
        half = _mm256_hadd_epi32(_mm256_hadd_epi32(sums[0], sums[1]), _mm256_hadd_epi32(sums[2], sums[3]));
    }
    return _mm256_add_epi32(_mm256_permute2x128_si256(halves[0], halves[1], 0x20),
                            _mm256_permute2x128_si256(halves[0], halves[1], 0x31));
}

// kTaps is the number of taps, or 0 for many times 16.
template <int kTaps>
SPDL_AVX2 void narrow_row(const ResampleTable& table, const FineLevel* row, FineLevel* output) {
    const fine::Row packed = fine::row(table);
    const std::int32_t* first = packed.first;
    const std::int16_t* weights = packed.weights;
    const __m256i half = _mm256_set1_epi32(1 << (fine::kBits - 1));
    for (int i = 0; i < table.output; i += kOutputs, first += kOutputs, weights += kOutputs * packed.taps) {
        __m256i sums;
        if constexpr (kTaps == 4) {
            sums = sum_few(row, first, weights);
        } else if constexpr (kTaps == 8) {
            sums = sum_some(row, first, weights);
        } else {
            sums = sum_many<kTaps / 16>(row, first, weights, packed.taps / 16);
        }
        sums = _mm256_srai_epi32(_mm256_add_epi32(sums, half), fine::kBits);
        store(output + i, _mm_packs_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1)));
    }
}

// The sums of eight outputs that are near each other.
SPDL_AVX2 inline __m256i sum_near(const FineLevel* row, const fine::NearGroup& group, int half, int count) {
    const FineLevel* low = row + group.base[2 * half];
    const FineLevel* high = row + group.base[2 * half + 1];
    const __m256i shuffle = load(group.shuffle + 32 * half);
    const fine::NearPair* pair = group.pairs();
    __m256i sum = _mm256_set1_epi32(1 << (fine::kBits - 1));
    for (int i = 0; i < count; ++i, ++pair, low += 2, high += 2) {
        const __m256i taps = _mm256_shuffle_epi8(load_halves(low, high), shuffle);
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(taps, load(pair->weights + 16 * half)));
    }
    return _mm256_srai_epi32(sum, fine::kBits);
}

// kCount is the number of pairs if it is known at compile time, otherwise 0.
template <int kCount>
SPDL_AVX2 void narrow_near(const ResampleTable& table, const FineLevel* row, FineLevel* output) {
    const int count = kCount != 0 ? kCount : fine::pairs(table);
    const std::uint8_t* packed = fine::near_groups(table);
    for (int i = 0; i < table.output; i += fine::kGroup, packed += fine::near_group_bytes(table)) {
        const auto& group = *reinterpret_cast<const fine::NearGroup*>(packed);
        const __m256i words = _mm256_packs_epi32(sum_near(row, group, 0, count), sum_near(row, group, 1, count));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(output + i), in_order(words));
    }
}

SPDL_AVX2 void narrow(const ResampleTable& table, const FineLevel* row, FineLevel* output) noexcept {
    if (table.lanes_fit) {
        return fine::pairs(table) == 2 ? narrow_near<2>(table, row, output) : narrow_near<0>(table, row, output);
    }
    switch (fine::padded_taps(table)) {
        case 4:
            return narrow_row<4>(table, row, output);
        case 8:
            return narrow_row<8>(table, row, output);
        case 16:
            return narrow_row<16>(table, row, output);
        default:
            return narrow_row<0>(table, row, output);
    }
}

struct Factors {
    __m256i black;
    __m256i luma;
    __m256i red_from_cr_less_1;
    __m256i green_from_cb;
    __m256i green_from_cr;
    __m256i blue_from_cb_less_1;
};

struct Pixels {
    __m256i red;
    __m256i green;
    __m256i blue;
};

SPDL_AVX2 inline __m256i centred(const FineLevel* chroma) {
    return _mm256_subs_epi16(load(chroma), _mm256_set1_epi16(kMiddle));
}

// Multiplies by a factor that is this one and 1.
SPDL_AVX2 inline __m256i more_than(__m256i chroma, __m256i factor) {
    const __m256i one = _mm256_set1_epi16(YuvColors::kOne);
    return _mm256_adds_epi16(_mm256_mulhrs_epi16(chroma, one), _mm256_mulhrs_epi16(chroma, factor));
}

// 16 pixels as integers.
SPDL_AVX2 inline Pixels convert(const Factors& factors, const YuvRow& row, std::size_t at) {
    constexpr int kShift = kFineBits - 1;
    const __m256i half = _mm256_set1_epi16(1 << (kShift - 1));
    const __m256i y =
        _mm256_add_epi16(_mm256_mulhrs_epi16(_mm256_subs_epi16(load(row.y + at), factors.black), factors.luma), half);
    const __m256i cb = centred(row.cb + at);
    const __m256i cr = centred(row.cr + at);
    const __m256i red = _mm256_adds_epi16(y, more_than(cr, factors.red_from_cr_less_1));
    const __m256i green = _mm256_subs_epi16(_mm256_subs_epi16(y, _mm256_mulhrs_epi16(cb, factors.green_from_cb)),
                                            _mm256_mulhrs_epi16(cr, factors.green_from_cr));
    const __m256i blue = _mm256_adds_epi16(y, more_than(cb, factors.blue_from_cb_less_1));
    return {_mm256_srai_epi16(red, kShift), _mm256_srai_epi16(green, kShift), _mm256_srai_epi16(blue, kShift)};
}

SPDL_AVX2 inline __m256i clip(__m256i low, __m256i high) {
    return in_order(_mm256_packus_epi16(low, high));
}

SPDL_AVX2 void write(const YuvColors& colors, const YuvRow& row, std::size_t count, bool blue_first,
                     std::uint8_t* to) noexcept {
    const Factors factors{
        _mm256_set1_epi16(colors.black),
        _mm256_set1_epi16(colors.luma),
        _mm256_set1_epi16(colors.red_from_cr_less_1),
        _mm256_set1_epi16(colors.green_from_cb),
        _mm256_set1_epi16(colors.green_from_cr),
        _mm256_set1_epi16(colors.blue_from_cb_less_1),
    };
    constexpr std::size_t kPixels = 32;
    std::size_t i = 0;
    for (; i + kPixels <= count; i += kPixels, to += 3 * kPixels) {
        const Pixels low = convert(factors, row, i);
        const Pixels high = convert(factors, row, i + kPixels / 2);
        const __m256i red = clip(low.red, high.red);
        const __m256i blue = clip(low.blue, high.blue);
        store_packed(blue_first ? blue : red, clip(low.green, high.green), blue_first ? red : blue, to);
    }
    kScalarPlanes.write(colors, {row.y + i, row.cb + i, row.cr + i}, count - i, blue_first, to);
}

}  // namespace

const PlaneKernels kAvx2Planes{shorten, narrow, write};

}  // namespace spdl

#endif
