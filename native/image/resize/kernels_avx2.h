#pragma once

#include <immintrin.h>

#include <cstdint>

#include "image/resize/kernels.h"

// Each function names its target. If whole files were compiled for AVX2, inline functions of the standard library would
// be, too, and the linker might choose those for every processor.
#define SPDL_AVX2 __attribute__((target("avx2")))

namespace spdl {

extern const NearPasses kAvx2Near;

// Clips four pixels and writes them and two more bytes: `left` has the first and the third, `right` the others.
__attribute__((always_inline)) SPDL_AVX2 inline void store_pixels(__m256i left, __m256i right, std::uint8_t* to) {
    constexpr char kNone = -1;
    const __m256i squeeze = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 2, 4, 5, 6, kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone));
    const __m256i words = _mm256_packs_epi32(left, right);
    const __m256i bytes = _mm256_shuffle_epi8(_mm256_packus_epi16(words, words), squeeze);
    // Six bytes of each store count; the next one overwrites the rest.
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(bytes));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to + 6), _mm256_extracti128_si256(bytes, 1));
}

// The function in kAvx2Kernels.
void pack_vertical_avx2(ResampleTable& table);

}  // namespace spdl
