#include "image/png/unfilter.h"

#include <array>
#include <cstdlib>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace spdl {
namespace {

// The numbers of the filters; 0 leaves a row as it is.
constexpr std::uint8_t kSub = 1;
constexpr std::uint8_t kUp = 2;
constexpr std::uint8_t kAverage = 3;
constexpr std::uint8_t kPaeth = 4;

// Each predicts a byte from those to the left, above, and above to the left.
struct Sub {
    static int of(int left, int /*above*/, int /*corner*/) noexcept { return left; }
};

struct Average {
    static int of(int left, int above, int /*corner*/) noexcept { return (left + above) / 2; }
};

struct Paeth {
    static int of(int left, int above, int corner) noexcept {
        const int by_left = std::abs(above - corner);
        const int by_above = std::abs(left - corner);
        const int by_corner = std::abs(left + above - 2 * corner);
        if (by_left <= by_above && by_left <= by_corner) {
            return left;
        }
        return by_above <= by_corner ? above : corner;
    }
};

// A chain of dependencies for each byte of a pixel, which the processor follows side by side.
template <typename Predict, std::size_t kStep>
void predict(std::uint8_t* row, const std::uint8_t* above, std::size_t size) noexcept {
    std::array<int, kStep> left{};
    std::array<int, kStep> corner{};
    for (std::size_t at = 0; at + kStep <= size; at += kStep) {
        for (std::size_t i = 0; i < kStep; ++i) {
            const int up = above[at + i];
            left[i] = (row[at + i] + Predict::of(left[i], up, corner[i])) & 0xff;
            row[at + i] = static_cast<std::uint8_t>(left[i]);
            corner[i] = up;
        }
    }
}

#if defined(__SSE2__)

__m128i load(const std::uint8_t* from) noexcept {
    int four = 0;
    std::memcpy(&four, from, sizeof(four));
    return _mm_cvtsi32_si128(four);
}

template <std::size_t kStep>
void store(std::uint8_t* to, __m128i pixel) noexcept {
    const int four = _mm_cvtsi128_si32(pixel);
    std::memcpy(to, &four, kStep);
}

// Pixels of 3 or 4 bytes, one at a time: all bytes of a pixel in one register.
template <std::size_t kStep>
void sub_pixels(std::uint8_t* row, std::size_t size) noexcept {
    __m128i left = _mm_setzero_si128();
    for (std::size_t at = 0; at < size; at += kStep) {
        left = _mm_add_epi8(left, load(row + at));
        store<kStep>(row + at, left);
    }
}

template <std::size_t kStep>
void average_pixels(std::uint8_t* row, const std::uint8_t* above, std::size_t size) noexcept {
    const __m128i ones = _mm_set1_epi8(1);
    __m128i left = _mm_setzero_si128();
    for (std::size_t at = 0; at < size; at += kStep) {
        const __m128i up = load(above + at);
        // The instruction rounds up, the filter down.
        const __m128i odd = _mm_and_si128(_mm_xor_si128(left, up), ones);
        left = _mm_add_epi8(load(row + at), _mm_sub_epi8(_mm_avg_epu8(left, up), odd));
        store<kStep>(row + at, left);
    }
}

__m128i absolute(__m128i values) noexcept {
    return _mm_max_epi16(values, _mm_sub_epi16(_mm_setzero_si128(), values));
}

__m128i choose(__m128i mask, __m128i yes, __m128i no) noexcept {
    return _mm_or_si128(_mm_and_si128(mask, yes), _mm_andnot_si128(mask, no));
}

template <std::size_t kStep>
void paeth_pixels(std::uint8_t* row, const std::uint8_t* above, std::size_t size) noexcept {
    const __m128i zero = _mm_setzero_si128();
    // 16 bits for each byte.
    __m128i left = zero;
    __m128i corner = zero;
    for (std::size_t at = 0; at < size; at += kStep) {
        const __m128i up = _mm_unpacklo_epi8(load(above + at), zero);
        const __m128i to_left = _mm_sub_epi16(up, corner);
        const __m128i to_above = _mm_sub_epi16(left, corner);
        const __m128i by_left = absolute(to_left);
        const __m128i by_above = absolute(to_above);
        const __m128i by_corner = absolute(_mm_add_epi16(to_left, to_above));
        const __m128i least = _mm_min_epi16(by_corner, _mm_min_epi16(by_left, by_above));
        const __m128i predicted =
            choose(_mm_cmpeq_epi16(least, by_left), left, choose(_mm_cmpeq_epi16(least, by_above), up, corner));
        // The upper halves stay zero: the sum is one of bytes.
        left = _mm_add_epi8(_mm_unpacklo_epi8(load(row + at), zero), predicted);
        store<kStep>(row + at, _mm_packus_epi16(left, left));
        corner = up;
    }
}

template <std::size_t kStep>
void pixels(std::uint8_t filter, std::uint8_t* row, const std::uint8_t* above, std::size_t size) noexcept {
    switch (filter) {
        case kSub:
            return sub_pixels<kStep>(row, size);
        case kAverage:
            return average_pixels<kStep>(row, above, size);
        default:
            return paeth_pixels<kStep>(row, above, size);
    }
}

#endif

template <std::size_t kStep>
void bytes(std::uint8_t filter, std::uint8_t* row, const std::uint8_t* above, std::size_t size) noexcept {
    switch (filter) {
        case kSub:
            return predict<Sub, kStep>(row, above, size);
        case kAverage:
            return predict<Average, kStep>(row, above, size);
        default:
            return predict<Paeth, kStep>(row, above, size);
    }
}

}  // namespace

void unfilter(std::uint8_t filter, std::uint8_t* row, const std::uint8_t* above, std::size_t size,
              std::size_t step) noexcept {
    if (filter == 0) {
        return;
    }
    if (filter == kUp) {
        for (std::size_t i = 0; i < size; ++i) {
            row[i] = static_cast<std::uint8_t>(row[i] + above[i]);
        }
        return;
    }
    switch (step) {
        case 1:
            return bytes<1>(filter, row, above, size);
        case 2:
            return bytes<2>(filter, row, above, size);
#if defined(__SSE2__)
        case 3:
            return pixels<3>(filter, row, above, size);
        case 4:
            return pixels<4>(filter, row, above, size);
#else
        case 3:
            return bytes<3>(filter, row, above, size);
        case 4:
            return bytes<4>(filter, row, above, size);
#endif
        case 6:
            return bytes<6>(filter, row, above, size);
        default:
            return bytes<8>(filter, row, above, size);
    }
}

}  // namespace spdl
