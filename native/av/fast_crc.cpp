#include "av/fast_crc.h"

#include <cstddef>

#include "core/cpu_features.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define SPDL_CLMUL __attribute__((target("pclmul,ssse3")))
#endif

namespace spdl {
namespace {

std::uint32_t plain(AVCRCId id, std::uint32_t sum, Bytes bytes) {
    return av_crc(av_crc_get_table(id), sum, bytes.data(), bytes.size());
}

#if defined(__x86_64__)

// A sum of bytes is the remainder of the polynomial whose coefficients they are.
struct Divisor {
    std::uint64_t bits;
    int degree;
};

constexpr Divisor kAnsi{0x18005, 16};
constexpr Divisor kIeee{0x104C11DB7, 32};

// Returns the remainder of x to that power.
constexpr long long power(std::size_t exponent, Divisor divisor) {
    std::uint64_t remainder = 1;
    for (std::size_t i = 0; i < exponent; ++i) {
        remainder <<= 1;
        remainder ^= (remainder >> divisor.degree & 1) != 0 ? divisor.bits : 0;
    }
    return static_cast<long long>(remainder);
}

constexpr std::size_t kBlock = sizeof(__m128i);
constexpr std::size_t kLanes = 4;
constexpr std::size_t kStep = kLanes * kBlock;

// The powers for the low and the high half of a block, by which it is so many bytes further ahead.
template <Divisor divisor, std::size_t bytes>
constexpr long long kLow = power(8 * bytes, divisor);
template <Divisor divisor, std::size_t bytes>
constexpr long long kHigh = power(8 * bytes + 64, divisor);

SPDL_CLMUL inline __m128i reversed(__m128i block) {
    return _mm_shuffle_epi8(block, _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
}

SPDL_CLMUL inline __m128i load(const std::uint8_t* bytes) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
}

// Returns a block whose remainder is that of this one, so many bytes further ahead.
SPDL_CLMUL inline __m128i move(__m128i block, __m128i powers) {
    return _mm_xor_si128(_mm_clmulepi64_si128(block, powers, 0x11), _mm_clmulepi64_si128(block, powers, 0x00));
}

template <Divisor divisor>
SPDL_CLMUL std::uint32_t folded(AVCRCId id, std::uint32_t sum, Bytes bytes) {
    const __m128i by_step = _mm_set_epi64x(kHigh<divisor, kStep>, kLow<divisor, kStep>);
    const __m128i by_block = _mm_set_epi64x(kHigh<divisor, kBlock>, kLow<divisor, kBlock>);
    __m128i lanes[kLanes];
    // The sum of what came before is added to the first bytes.
    lanes[0] = reversed(_mm_xor_si128(load(bytes.data()), _mm_cvtsi32_si128(static_cast<int>(sum))));
    for (std::size_t lane = 1; lane < kLanes; ++lane) {
        lanes[lane] = reversed(load(bytes.data() + lane * kBlock));
    }
    std::size_t at = kStep;
    for (; at + kStep <= bytes.size(); at += kStep) {
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
            const __m128i next = reversed(load(bytes.data() + at + lane * kBlock));
            lanes[lane] = _mm_xor_si128(move(lanes[lane], by_step), next);
        }
    }
    __m128i all = lanes[0];
    for (std::size_t lane = 1; lane < kLanes; ++lane) {
        all = _mm_xor_si128(move(all, by_block), lanes[lane]);
    }
    alignas(kBlock) std::uint8_t rest[kBlock];
    _mm_store_si128(reinterpret_cast<__m128i*>(rest), reversed(all));
    return plain(id, plain(id, 0, rest), bytes.subspan(at));
}

#endif

}  // namespace

#if defined(__x86_64__)

std::uint32_t crc_16_ansi(std::uint32_t sum, Bytes bytes) {
    const bool fast = bytes.size() >= kStep && has_clmul();
    return fast ? folded<kAnsi>(AV_CRC_16_ANSI, sum, bytes) : plain(AV_CRC_16_ANSI, sum, bytes);
}

std::uint32_t crc_32_ieee(std::uint32_t sum, Bytes bytes) {
    const bool fast = bytes.size() >= kStep && has_clmul();
    return fast ? folded<kIeee>(AV_CRC_32_IEEE, sum, bytes) : plain(AV_CRC_32_IEEE, sum, bytes);
}

#else

std::uint32_t crc_16_ansi(std::uint32_t sum, Bytes bytes) {
    return plain(AV_CRC_16_ANSI, sum, bytes);
}

std::uint32_t crc_32_ieee(std::uint32_t sum, Bytes bytes) {
    return plain(AV_CRC_32_IEEE, sum, bytes);
}

#endif

}  // namespace spdl
