#if defined(__x86_64__)

#include <immintrin.h>

#include <utility>

#include "image/write/pixel_writers.h"

#define SPDL_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi")))

namespace spdl {
namespace {

constexpr std::size_t kVector = 16;  // Floats.

SPDL_AVX512 inline void store(float* to, __mmask16 which, __m512 values) {
    _mm512_mask_storeu_ps(to, which, values);
}

SPDL_AVX512 inline void store(std::uint16_t* to, __mmask16 which, __m512 values) {
    _mm256_mask_storeu_epi16(to, which, _mm512_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT));
}

// Returns the mask for a whole vector, or for the rest of the row.
inline __mmask16 up_to(std::size_t count) {
    return static_cast<__mmask16>(count >= kVector ? 0xffffU : (1U << count) - 1U);
}

template <typename Element>
SPDL_AVX512 void write_planes(const ArrayFormat& format, const std::uint8_t* pixels, std::size_t count,
                              std::uint8_t* const* planes) {
    constexpr __mmask64 kFirst = 0x1111111111111111U;  // The lowest byte of every integer.
    __m512i picks[3];
    __m512 scale[3];
    __m512 offset[3];
    const __m512i lanes = _mm512_setr_epi32(0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 42, 45);
    for (std::size_t channel = 0; channel < 3; ++channel) {
        picks[channel] = _mm512_add_epi32(lanes, _mm512_set1_epi32(static_cast<int>(channel)));
        scale[channel] = _mm512_set1_ps(format.scale()[channel]);
        offset[channel] = _mm512_set1_ps(format.offset()[channel]);
    }
    for (std::size_t i = 0; i < count; i += kVector) {
        const __mmask16 which = up_to(count - i);
        const __m512i bytes = _mm512_loadu_si512(pixels + 3 * i);
        for (std::size_t channel = 0; channel < 3; ++channel) {
            const __m512 values = _mm512_cvtepi32_ps(_mm512_maskz_permutexvar_epi8(kFirst, picks[channel], bytes));
            store(reinterpret_cast<Element*>(planes[channel]) + i, which,
                  _mm512_fmadd_ps(values, scale[channel], offset[channel]));
        }
    }
}

template <typename Element>
SPDL_AVX512 void write_packed(const ArrayFormat& format, const std::uint8_t* pixels, std::size_t count,
                              std::uint8_t* to) {
    // Three vectors are sixteen whole pixels.
    __m512 scale[3];
    __m512 offset[3];
    for (std::size_t part = 0; part < 3; ++part) {
        alignas(__m512) float scales[kVector];
        alignas(__m512) float offsets[kVector];
        for (std::size_t j = 0; j < kVector; ++j) {
            scales[j] = format.scale()[(part * kVector + j) % 3];
            offsets[j] = format.offset()[(part * kVector + j) % 3];
        }
        scale[part] = _mm512_load_ps(scales);
        offset[part] = _mm512_load_ps(offsets);
    }
    std::size_t part = 0;
    for (std::size_t at = 0; at < 3 * count; at += kVector) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(pixels + at));
        const __m512 values = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes));
        store(reinterpret_cast<Element*>(to) + at, up_to(3 * count - at),
              _mm512_fmadd_ps(values, scale[part], offset[part]));
        part = part == 2 ? 0 : part + 1;
    }
}

SPDL_AVX512 void write_byte_planes(const std::uint8_t* pixels, std::size_t count, std::uint8_t* const* planes) {
    constexpr std::size_t kPixels = 64;
    // From the first two of three vectors, then from the third.
    __m512i picks[3];
    __mmask64 third[3];
    for (std::size_t channel = 0; channel < 3; ++channel) {
        alignas(__m512i) std::uint8_t pick[kPixels];
        third[channel] = 0;
        for (std::size_t pixel = 0; pixel < kPixels; ++pixel) {
            const std::size_t at = 3 * pixel + channel;
            pick[pixel] = static_cast<std::uint8_t>(at % 128);
            third[channel] |= static_cast<__mmask64>(at >= 128) << pixel;
        }
        picks[channel] = _mm512_load_si512(pick);
    }
    for (std::size_t i = 0; i < count; i += kPixels) {
        const std::size_t left = count - i;
        const __mmask64 which = left >= kPixels ? ~__mmask64{0} : (__mmask64{1} << left) - 1;
        // Only the first vector certainly lies within the row and the slack after it.
        const std::uint8_t* const source = pixels + 3 * i;
        const __m512i a = _mm512_loadu_si512(source);
        const __m512i b = 3 * left > 64 ? _mm512_loadu_si512(source + 64) : a;
        const __m512i c = 3 * left > 128 ? _mm512_loadu_si512(source + 128) : a;
        for (std::size_t channel = 0; channel < 3; ++channel) {
            const __m512i front = _mm512_permutex2var_epi8(a, picks[channel], b);
            const __m512i bytes = _mm512_mask_permutexvar_epi8(front, third[channel], picks[channel], c);
            _mm512_mask_storeu_epi8(planes[channel] + i, which, bytes);
        }
    }
}

}  // namespace

void write_pixels_avx512(const ArrayFormat& format, const std::uint8_t* pixels, std::size_t count,
                         std::uint8_t* const* planes) noexcept {
    const bool planar = format.layout() == Layout::kNchw;
    if (format.channels() == Channels::kGray || (format.type() == ElementType::kUint8 && !planar)) {
        write_pixels_scalar(format, pixels, count, planes);
    } else if (format.type() == ElementType::kFloat32) {
        planar ? write_planes<float>(format, pixels, count, planes)
               : write_packed<float>(format, pixels, count, planes[0]);
    } else if (format.type() == ElementType::kFloat16) {
        planar ? write_planes<std::uint16_t>(format, pixels, count, planes)
               : write_packed<std::uint16_t>(format, pixels, count, planes[0]);
    } else {
        write_byte_planes(pixels, count, planes);
    }
}

}  // namespace spdl

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

// The origin of each byte of the packed pixels: the first two channels, or the third.
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

// The mask of the bytes of a part that belong to that many pixels.
inline __mmask64 bytes_up_to(std::size_t pixels, std::size_t part) {
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
            _mm512_mask_storeu_epi8(to + 3 * i + kPixels * part, bytes_up_to(count - i, part), bytes);
        }
    }
}

}  // namespace spdl

#endif
