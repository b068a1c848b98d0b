#if defined(__x86_64__)

#include <immintrin.h>

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
        // Only the first vector certainly lies within the row and the slack behind it.
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

#endif
