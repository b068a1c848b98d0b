#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "image/planes/plane_kernels.h"

// Only the vertical pass, which takes most of the time, gains from this instruction set: it adds the products up as it
// multiplies. The other steps use AVX2.
//
// As in that variant, each function names its target.
#define SPDL_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vnni")))

namespace spdl {
namespace {

constexpr std::size_t kColumns = 64;

// kCount is the number of pairs of rows if it is known at compile time, otherwise 0.
template <int kCount>
SPDL_AVX512 inline void shorten_columns(const std::int32_t* weights, int count, const std::uint8_t* const* rows,
                                        FineLevel* output, std::size_t column) {
    constexpr int kShift = fine::kBits - kFineBits;
    const __m512i zero = _mm512_setzero_si512();
    const __m512i half = _mm512_set1_epi32(1 << (kShift - 1));
    __m512i sums[4] = {half, half, half, half};
    for (int pair = 0; pair < (kCount != 0 ? kCount : count); ++pair) {
        const __m512i upper = _mm512_loadu_si512(rows[2 * pair] + column);
        const __m512i lower = _mm512_loadu_si512(rows[2 * pair + 1] + column);
        const __m512i left = _mm512_unpacklo_epi8(upper, lower);
        const __m512i right = _mm512_unpackhi_epi8(upper, lower);
        const __m512i both = _mm512_set1_epi32(weights[pair]);
        sums[0] = _mm512_dpwssd_epi32(sums[0], _mm512_unpacklo_epi8(left, zero), both);
        sums[1] = _mm512_dpwssd_epi32(sums[1], _mm512_unpackhi_epi8(left, zero), both);
        sums[2] = _mm512_dpwssd_epi32(sums[2], _mm512_unpacklo_epi8(right, zero), both);
        sums[3] = _mm512_dpwssd_epi32(sums[3], _mm512_unpackhi_epi8(right, zero), both);
    }
    // Of every 16 columns the first 8, and the others.
    const __m512i even = _mm512_packs_epi32(_mm512_srai_epi32(sums[0], kShift), _mm512_srai_epi32(sums[1], kShift));
    const __m512i odd = _mm512_packs_epi32(_mm512_srai_epi32(sums[2], kShift), _mm512_srai_epi32(sums[3], kShift));
    const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    _mm512_storeu_si512(output + column, _mm512_permutex2var_epi64(even, first, odd));
    _mm512_storeu_si512(output + column + kColumns / 2, _mm512_permutex2var_epi64(even, second, odd));
}

template <int kCount>
SPDL_AVX512 void shorten_rows(const std::int32_t* weights, int count, const std::uint8_t* const* rows,
                              FineLevel* output, std::size_t size) {
    for (std::size_t column = 0; column + kColumns <= size; column += kColumns) {
        shorten_columns<kCount>(weights, count, rows, output, column);
    }
    if (size % kColumns != 0) {
        // Some of the columns once more.
        shorten_columns<kCount>(weights, count, rows, output, size - kColumns);
    }
}

SPDL_AVX512 void shorten(const std::int32_t* weights, int count, const std::uint8_t* const* rows, FineLevel* output,
                         std::size_t size) noexcept {
    if (size < kColumns) {
        kAvx2Planes.shorten(weights, count, rows, output, size);
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

void narrow(const ResampleTable& table, const FineLevel* row, FineLevel* output) noexcept {
    kAvx2Planes.narrow(table, row, output);
}

void write(const YuvColors& colors, const YuvRow& row, std::size_t count, bool blue_first, std::uint8_t* to) noexcept {
    kAvx2Planes.write(colors, row, count, blue_first, to);
}

}  // namespace

const PlaneKernels kAvx512Planes{shorten, narrow, write};

}  // namespace spdl

#endif
