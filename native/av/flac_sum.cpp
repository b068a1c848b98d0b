#include "av/flac_sum.h"

#include <cstddef>
#include <cstdint>

#include "core/cpu_features.h"
#include "ffmpeg/libav.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define SPDL_CLMUL __attribute__((target("pclmul,ssse3")))
#endif

namespace spdl {

#if defined(__x86_64__)

namespace {

// RFC 9639, section 9.3.
constexpr std::uint64_t kPolynomial = 0x18005;
constexpr std::uint64_t kTop = 0x10000;

// Returns the remainder of x to that power. A sum of bytes is the remainder of a polynomial, whose coefficients they
// are.
constexpr long long power(std::size_t exponent) {
    std::uint64_t remainder = 1;
    for (std::size_t i = 0; i < exponent; ++i) {
        remainder <<= 1;
        remainder ^= (remainder & kTop) != 0 ? kPolynomial : 0;
    }
    return static_cast<long long>(remainder);
}

constexpr std::size_t kBlock = sizeof(__m128i);
constexpr std::size_t kLanes = 4;
constexpr std::size_t kStep = kLanes * kBlock;
// For the halves of a block.
constexpr long long kLowByStep = power(8 * kStep);
constexpr long long kHighByStep = power(8 * kStep + 64);
constexpr long long kLowByBlock = power(8 * kBlock);
constexpr long long kHighByBlock = power(8 * kBlock + 64);

SPDL_CLMUL inline __m128i reversed(__m128i block) {
    return _mm_shuffle_epi8(block, _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
}

SPDL_CLMUL inline __m128i load(const std::uint8_t* bytes) {
    return reversed(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
}

// Returns a block whose remainder, some bytes further ahead, is that of this one.
SPDL_CLMUL inline __m128i move(__m128i block, __m128i powers) {
    return _mm_xor_si128(_mm_clmulepi64_si128(block, powers, 0x11), _mm_clmulepi64_si128(block, powers, 0x00));
}

SPDL_CLMUL bool divides(Bytes frame) {
    const __m128i by_step = _mm_set_epi64x(kHighByStep, kLowByStep);
    const __m128i by_block = _mm_set_epi64x(kHighByBlock, kLowByBlock);
    __m128i lanes[kLanes];
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
        lanes[lane] = load(frame.data() + lane * kBlock);
    }
    std::size_t at = kStep;
    for (; at + kStep <= frame.size(); at += kStep) {
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
            lanes[lane] = _mm_xor_si128(move(lanes[lane], by_step), load(frame.data() + at + lane * kBlock));
        }
    }
    __m128i sum = lanes[0];
    for (std::size_t lane = 1; lane < kLanes; ++lane) {
        sum = _mm_xor_si128(move(sum, by_block), lanes[lane]);
    }
    alignas(kBlock) std::uint8_t rest[kBlock];
    _mm_store_si128(reinterpret_cast<__m128i*>(rest), reversed(sum));
    const AVCRC* const table = av_crc_get_table(AV_CRC_16_ANSI);
    return av_crc(table, av_crc(table, 0, rest, kBlock), frame.data() + at, frame.size() - at) == 0;
}

}  // namespace

bool has_right_sum(Bytes frame) {
    return frame.size() >= kStep && has_clmul() && divides(frame);
}

#else

bool has_right_sum(Bytes /*frame*/) {
    return false;
}

#endif

}  // namespace spdl
