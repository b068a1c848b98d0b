#if defined(__x86_64__)

#include <immintrin.h>

#include <utility>

#include "image/write/packed_pixels_avx2.h"
#include "image/write/pixel_writers.h"

namespace spdl {
namespace {

constexpr std::size_t kPixels = 32;  // At a time.

struct Colors {
    __m256i red;
    __m256i green;
    __m256i blue;
};

// The colours of 16 pixels, as 16-bit integers.
SPDL_AVX2 inline Colors convert(__m256i y, __m256i cb, __m256i cr) {
    const __m256i middle = _mm256_set1_epi16(128);
    cb = _mm256_sub_epi16(cb, middle);
    cr = _mm256_sub_epi16(cr, middle);
    const __m256i from_cb =
        _mm256_mulhrs_epi16(_mm256_slli_epi16(cb, colors::kGreenBits), _mm256_set1_epi16(colors::kGreenFromCb));
    const __m256i from_cr =
        _mm256_mulhrs_epi16(_mm256_slli_epi16(cr, colors::kGreenBits), _mm256_set1_epi16(colors::kGreenFromCr));
    const __m256i half = _mm256_set1_epi16(1 << (colors::kGreenBits - 1));
    const __m256i green =
        _mm256_srai_epi16(_mm256_add_epi16(_mm256_add_epi16(from_cb, from_cr), half), colors::kGreenBits);
    return {
        _mm256_add_epi16(y, _mm256_mulhrs_epi16(_mm256_add_epi16(cr, cr), _mm256_set1_epi16(colors::kRedFromCr))),
        _mm256_sub_epi16(y, green),
        _mm256_add_epi16(y, _mm256_mulhrs_epi16(_mm256_add_epi16(cb, cb), _mm256_set1_epi16(colors::kBlueFromCb))),
    };
}

SPDL_AVX2 inline __m256i load(const std::uint8_t* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

}  // namespace

SPDL_AVX2 void write_colors_avx2(const ColorPlanes& planes, std::size_t count, bool blue_first,
                                 std::uint8_t* to) noexcept {
    const __m256i zero = _mm256_setzero_si256();
    std::size_t i = 0;
    for (; i + kPixels <= count; i += kPixels, to += 3 * kPixels) {
        const __m256i y = load(planes.y + i);
        const __m256i cb = load(planes.cb + i);
        const __m256i cr = load(planes.cr + i);
        const Colors low =
            convert(_mm256_unpacklo_epi8(y, zero), _mm256_unpacklo_epi8(cb, zero), _mm256_unpacklo_epi8(cr, zero));
        const Colors high =
            convert(_mm256_unpackhi_epi8(y, zero), _mm256_unpackhi_epi8(cb, zero), _mm256_unpackhi_epi8(cr, zero));
        // The packs undo the lane-wise unpacks.
        __m256i channels[3] = {_mm256_packus_epi16(low.red, high.red), _mm256_packus_epi16(low.green, high.green),
                               _mm256_packus_epi16(low.blue, high.blue)};
        if (blue_first) {
            std::swap(channels[0], channels[2]);
        }
        store_packed(channels[0], channels[1], channels[2], to);
    }
    write_colors_scalar({planes.y + i, planes.cb + i, planes.cr + i}, count - i, blue_first, to);
}

}  // namespace spdl

#endif
