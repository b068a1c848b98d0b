#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

// Each function names its target. If whole files were compiled for AVX2, inline functions of the standard library would
// be, too, and the linker might choose those for every processor.
#define SPDL_AVX2 __attribute__((target("avx2")))

namespace spdl {

// The places of the bytes of each channel in the three parts of 16 packed pixels.
struct PackedPlaces {
    alignas(32) std::uint8_t bytes[3][3][32];
};

constexpr PackedPlaces make_packed_places() {
    constexpr std::size_t kNone = 0x80;
    PackedPlaces places{};
    for (std::size_t part = 0; part < 3; ++part) {
        for (std::size_t channel = 0; channel < 3; ++channel) {
            for (std::size_t i = 0; i < 32; ++i) {
                const std::size_t at = 16 * part + i % 16;
                places.bytes[part][channel][i] = static_cast<std::uint8_t>(at % 3 == channel ? at / 3 : kNone);
            }
        }
    }
    return places;
}

inline constexpr PackedPlaces kPackedPlaces = make_packed_places();

// The bytes of a channel at their places in a part.
SPDL_AVX2 inline __m256i at_places(__m256i channel, const std::uint8_t (&places)[32]) {
    return _mm256_shuffle_epi8(channel, _mm256_load_si256(reinterpret_cast<const __m256i*>(places)));
}

// Writes 32 pixels of three channels.
SPDL_AVX2 inline void store_packed(__m256i first, __m256i second, __m256i third, std::uint8_t* to) {
    constexpr std::size_t kHalf = 48;
    for (std::size_t part = 0; part < 3; ++part) {
        const auto& places = kPackedPlaces.bytes[part];
        const __m256i bytes = _mm256_or_si256(
            _mm256_or_si256(at_places(first, places[0]), at_places(second, places[1])), at_places(third, places[2]));
        std::uint8_t* const at = to + 16 * part;
        _mm_storeu_si128(reinterpret_cast<__m128i*>(at), _mm256_castsi256_si128(bytes));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(at + kHalf), _mm256_extracti128_si256(bytes, 1));
    }
}

}  // namespace spdl
