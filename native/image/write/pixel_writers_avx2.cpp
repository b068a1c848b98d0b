#if defined(__x86_64__)

#include <immintrin.h>

#include "image/write/pixel_writers.h"

// As in the kernels, each function names its target.
#define SPDL_AVX2 __attribute__((target("avx2,fma,f16c")))

namespace spdl {
namespace {

constexpr char kNone = -1;
constexpr std::size_t kVector = 8;  // Floats.

SPDL_AVX2 inline void store(float* to, __m256 values) {
    _mm256_storeu_ps(to, values);
}

SPDL_AVX2 inline void store(std::uint16_t* to, __m256 values) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT));
}

// Returns how many pixels are written, a multiple of 8.
template <typename Element>
SPDL_AVX2 std::size_t write_planes(const ArrayFormat& format, const std::uint8_t* pixels, std::size_t count,
                                   std::uint8_t* const* planes) {
    __m256i picks[3];
    __m256 scale[3];
    __m256 offset[3];
    for (std::size_t channel = 0; channel < 3; ++channel) {
        const auto c = static_cast<char>(channel);
        const auto at = [c](int pixel) { return static_cast<char>(c + 3 * pixel); };
        picks[channel] =
            _mm256_broadcastsi128_si256(_mm_setr_epi8(at(0), kNone, kNone, kNone, at(1), kNone, kNone, kNone, at(2),
                                                      kNone, kNone, kNone, at(3), kNone, kNone, kNone));
        scale[channel] = _mm256_set1_ps(format.scale()[channel]);
        offset[channel] = _mm256_set1_ps(format.offset()[channel]);
    }
    std::size_t i = 0;
    for (; i + kVector <= count; i += kVector) {
        const auto* const source = reinterpret_cast<const __m128i*>(pixels + 3 * i);
        const auto* const second = reinterpret_cast<const __m128i*>(pixels + 3 * i + 12);
        const __m256i bytes =
            _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(source)), _mm_loadu_si128(second), 1);
        for (std::size_t channel = 0; channel < 3; ++channel) {
            const __m256 values = _mm256_cvtepi32_ps(_mm256_shuffle_epi8(bytes, picks[channel]));
            store(reinterpret_cast<Element*>(planes[channel]) + i,
                  _mm256_fmadd_ps(values, scale[channel], offset[channel]));
        }
    }
    return i;
}

template <typename Element>
SPDL_AVX2 std::size_t write_packed(const ArrayFormat& format, const std::uint8_t* pixels, std::size_t count,
                                   std::uint8_t* to) {
    // Three vectors are eight whole pixels.
    __m256 scale[3];
    __m256 offset[3];
    for (std::size_t part = 0; part < 3; ++part) {
        alignas(__m256) float scales[kVector];
        alignas(__m256) float offsets[kVector];
        for (std::size_t j = 0; j < kVector; ++j) {
            scales[j] = format.scale()[(part * kVector + j) % 3];
            offsets[j] = format.offset()[(part * kVector + j) % 3];
        }
        scale[part] = _mm256_load_ps(scales);
        offset[part] = _mm256_load_ps(offsets);
    }
    std::size_t i = 0;
    for (; i + kVector <= count; i += kVector) {
        for (std::size_t part = 0; part < 3; ++part) {
            const std::size_t at = 3 * i + part * kVector;
            const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(pixels + at));
            const __m256 values = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
            store(reinterpret_cast<Element*>(to) + at, _mm256_fmadd_ps(values, scale[part], offset[part]));
        }
    }
    return i;
}

SPDL_AVX2 std::size_t write_byte_planes(const std::uint8_t* pixels, std::size_t count, std::uint8_t* const* planes) {
    constexpr std::size_t kPixels = 16;
    // The places of a channel's bytes in each of three vectors.
    __m128i picks[3][3];
    for (int channel = 0; channel < 3; ++channel) {
        for (int part = 0; part < 3; ++part) {
            alignas(__m128i) char pick[kPixels];
            for (int pixel = 0; pixel < static_cast<int>(kPixels); ++pixel) {
                const int at = 3 * pixel + channel - 16 * part;
                pick[pixel] = at >= 0 && at < 16 ? static_cast<char>(at) : kNone;
            }
            picks[channel][part] = _mm_load_si128(reinterpret_cast<const __m128i*>(pick));
        }
    }
    std::size_t i = 0;
    for (; i + kPixels <= count; i += kPixels) {
        const auto* const source = reinterpret_cast<const __m128i*>(pixels + 3 * i);
        const __m128i parts[3] = {_mm_loadu_si128(source), _mm_loadu_si128(source + 1), _mm_loadu_si128(source + 2)};
        for (std::size_t channel = 0; channel < 3; ++channel) {
            const __m128i bytes = _mm_or_si128(_mm_or_si128(_mm_shuffle_epi8(parts[0], picks[channel][0]),
                                                            _mm_shuffle_epi8(parts[1], picks[channel][1])),
                                               _mm_shuffle_epi8(parts[2], picks[channel][2]));
            _mm_storeu_si128(reinterpret_cast<__m128i*>(planes[channel] + i), bytes);
        }
    }
    return i;
}

std::size_t write_vectors(const ArrayFormat& format, const std::uint8_t* pixels, std::size_t count,
                          std::uint8_t* const* planes) {
    const bool planar = format.layout() == Layout::kNchw;
    if (format.channels() == Channels::kGray) {
        return 0;
    }
    if (format.type() == ElementType::kFloat32) {
        return planar ? write_planes<float>(format, pixels, count, planes)
                      : write_packed<float>(format, pixels, count, planes[0]);
    }
    if (format.type() == ElementType::kFloat16) {
        return planar ? write_planes<std::uint16_t>(format, pixels, count, planes)
                      : write_packed<std::uint16_t>(format, pixels, count, planes[0]);
    }
    return planar ? write_byte_planes(pixels, count, planes) : 0;
}

}  // namespace

void write_pixels_avx2(const ArrayFormat& format, const std::uint8_t* pixels, std::size_t count,
                       std::uint8_t* const* planes) noexcept {
    write_pixels_from(write_vectors(format, pixels, count, planes), format, pixels, count, planes);
}

}  // namespace spdl

#endif
