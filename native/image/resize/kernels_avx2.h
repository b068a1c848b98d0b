#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "image/resize/kernels.h"

// Each function names its target. If whole files were compiled for AVX2, inline functions of the standard library would
// be, too, and the linker might choose those for every processor.
#define SPDL_AVX2 __attribute__((target("avx2")))

namespace spdl {

extern const NearPasses kAvx2Near;

// The two weights of a pair of taps, as the two 16-bit halves of an integer. Weights have 22 bits and do not fit the
// 16-bit multiplier of this instruction set, so each is split: weight = 256 * high + low. The sums of products of the
// high and of the low parts then give the same exact integer as the scalar variant.
struct WeightPair {
    std::int32_t high;
    std::int32_t low;
};

// Returns the weights of two neighbouring taps of an output. Missing taps have the weight 0.
WeightPair weight_pair(const ResampleTable& table, std::size_t output, int tap);

// Returns the results, not yet clipped, of the sums over the high and over the low parts.
__attribute__((always_inline)) SPDL_AVX2 inline __m256i join(__m256i high, __m256i low) {
    return _mm256_srai_epi32(_mm256_add_epi32(_mm256_slli_epi32(high, 8), low), ResampleTable::kFractionBits);
}

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

// The functions in kAvx2Kernels.
void pack_vertical_avx2(ResampleTable& table);
void pack_plane_avx2(ResampleTable& table);
void resample_plane_avx2(const ResampleTable& table, const std::uint8_t* const* sources, std::uint8_t* const* outputs,
                         int count) noexcept;

}  // namespace spdl
