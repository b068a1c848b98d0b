#if defined(__x86_64__)

#include <immintrin.h>

#include <utility>

#include "image/write/color_writers.h"

#define SPDL_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi")))

namespace spdl {
namespace {

constexpr std::size_t kPixels = 64;  // At a time. They become three vectors.

struct Colors {
    __m512i red;
    __m512i green;
    __m512i blue;
};

// The colours of 32 pixels, as 16-bit integers.
SPDL_AVX512 inline Colors convert(__m512i y, __m512i cb, __m512i cr) {
    const __m512i middle = _mm512_set1_epi16(128);
    cb = _mm512_sub_epi16(cb, middle);
    cr = _mm512_sub_epi16(cr, middle);
    const __m512i from_cb =
        _mm512_mulhrs_epi16(_mm512_slli_epi16(cb, colors::kGreenBits), _mm512_set1_epi16(colors::kGreenFromCb));
    const __m512i from_cr =
        _mm512_mulhrs_epi16(_mm512_slli_epi16(cr, colors::kGreenBits), _mm512_set1_epi16(colors::kGreenFromCr));
    const __m512i half = _mm512_set1_epi16(1 << (colors::kGreenBits - 1));
    const __m512i green =
        _mm512_srai_epi16(_mm512_add_epi16(_mm512_add_epi16(from_cb, from_cr), half), colors::kGreenBits);
    return {
        _mm512_add_epi16(y, _mm512_mulhrs_epi16(_mm512_add_epi16(cr, cr), _mm512_set1_epi16(colors::kRedFromCr))),
        _mm512_sub_epi16(y, green),
        _mm512_add_epi16(y, _mm512_mulhrs_epi16(_mm512_add_epi16(cb, cb), _mm512_set1_epi16(colors::kBlueFromCb))),
    };
}

// Where each byte of the packed pixels comes from: out of the first two channels, or out of the third.
struct Picks {
    alignas(64) std::uint8_t places[3][kPixels];
    __mmask64 third[3];
};

constexpr Picks make_picks() {
    Picks picks{};
    for (std::size_t part = 0; part < 3; ++part) {
        for (std::size_t i = 0; i < kPixels; ++i) {
            const std::size_t at = kPixels * part + i;
            picks.places[part][i] = static_cast<std::uint8_t>(at / 3 + (at % 3 == 1 ? kPixels : 0));
            picks.third[part] |= static_cast<__mmask64>(at % 3 == 2) << i;
        }
    }
    return picks;
}

constexpr Picks kPicks = make_picks();

// The mask of the bytes of a part that belong to so many pixels.
inline __mmask64 up_to(std::size_t pixels, std::size_t part) {
    const std::size_t bytes = 3 * pixels;
    if (bytes >= kPixels * (part + 1)) {
        return ~__mmask64{0};
    }
    return bytes <= kPixels * part ? 0 : (__mmask64{1} << (bytes - kPixels * part)) - 1;
}

}  // namespace

SPDL_AVX512 void write_colors_avx512(const ColorPlanes& planes, std::size_t count, bool blue_first,
                                     std::uint8_t* to) noexcept {
    const __m512i zero = _mm512_setzero_si512();
    for (std::size_t i = 0; i < count; i += kPixels) {
        const __m512i y = _mm512_loadu_si512(planes.y + i);
        const __m512i cb = _mm512_loadu_si512(planes.cb + i);
        const __m512i cr = _mm512_loadu_si512(planes.cr + i);
        const Colors low =
            convert(_mm512_unpacklo_epi8(y, zero), _mm512_unpacklo_epi8(cb, zero), _mm512_unpacklo_epi8(cr, zero));
        const Colors high =
            convert(_mm512_unpackhi_epi8(y, zero), _mm512_unpackhi_epi8(cb, zero), _mm512_unpackhi_epi8(cr, zero));
        // The packs undo the lane-wise unpacks.
        __m512i first = _mm512_packus_epi16(low.red, high.red);
        const __m512i green = _mm512_packus_epi16(low.green, high.green);
        __m512i third = _mm512_packus_epi16(low.blue, high.blue);
        if (blue_first) {
            std::swap(first, third);
        }
        for (std::size_t part = 0; part < 3; ++part) {
            const __m512i places = _mm512_load_si512(kPicks.places[part]);
            const __m512i two = _mm512_permutex2var_epi8(first, places, green);
            const __m512i bytes = _mm512_mask_permutexvar_epi8(two, kPicks.third[part], places, third);
            _mm512_mask_storeu_epi8(to + 3 * i + kPixels * part, up_to(count - i, part), bytes);
        }
    }
}

}  // namespace spdl

#endif
