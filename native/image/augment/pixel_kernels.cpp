#include <cstring>
#include <string_view>

#include "image/augment/pixel_steps.h"
#include "image/resize/kernels.h"

// As in image/jitter/jitter_kernels.cpp, each instruction set gets a copy of these functions.
#define SPDL_INLINE inline __attribute__((always_inline))

namespace spdl {
namespace {

// Compilers make of it what the instruction set has.
using Lanes = float __attribute__((vector_size(32)));
constexpr std::size_t kLanes = sizeof(Lanes) / sizeof(float);

SPDL_INLINE void load(const float* from, Lanes& to) {
    std::memcpy(&to, from, sizeof to);
}

SPDL_INLINE void filter_of(const FilterRows& rows, std::size_t count, float* to) {
    for (std::size_t at = 0; at < count; at += kFilterBlock) {
        // As many as fit into the registers.
        Lanes sums[kFilterBlock / kLanes];
        for (std::size_t j = 0; j < kFilterBlock / kLanes; ++j) {
            load(rows.center + at + j * kLanes, sums[j]);
            sums[j] *= rows.weights[0];
        }
        for (std::size_t i = 0; i < rows.radius; ++i) {
            const float* const before = rows.before[i] + at;
            const float* const after = rows.after[i] + at;
            const float weight = rows.weights[i + 1];
            for (std::size_t j = 0; j < kFilterBlock / kLanes; ++j) {
                Lanes one;
                Lanes other;
                load(before + j * kLanes, one);
                load(after + j * kLanes, other);
                sums[j] += (one + other) * weight;
            }
        }
        std::memcpy(to + at, sums, sizeof sums);
    }
}

SPDL_INLINE void sharpen_of(const std::uint8_t* const rows[3], std::size_t begin, std::size_t end, float factor,
                            std::uint8_t* to) {
    constexpr std::size_t kPixel = 3;
    const std::uint8_t* const above = rows[0];
    const std::uint8_t* const row = rows[1];
    const std::uint8_t* const below = rows[2];
    for (std::size_t i = begin; i < end; ++i) {
        const int sum = above[i - kPixel] + above[i] + above[i + kPixel] + row[i - kPixel] + 5 * row[i] +
                        row[i + kPixel] + below[i - kPixel] + below[i] + below[i + kPixel];
        const auto mean = static_cast<float>((sum + 6) / 13);
        float value = static_cast<float>(row[i]) * factor + (1 - factor) * mean;
        value = value < 0 ? 0 : value;
        value = value > 255 ? 255 : value;
        to[i] = static_cast<std::uint8_t>(static_cast<int>(value + 0.5F));
    }
}

void filter_portable(const FilterRows& rows, std::size_t count, float* to) {
    filter_of(rows, count, to);
}

void sharpen_portable(const std::uint8_t* const rows[3], std::size_t begin, std::size_t end, float factor,
                      std::uint8_t* to) {
    sharpen_of(rows, begin, end, factor, to);
}

constexpr PixelKernels kPortable{filter_portable, sharpen_portable};

#if defined(__x86_64__)

#define SPDL_AVX2 __attribute__((target("avx2")))

SPDL_AVX2 void filter_avx2(const FilterRows& rows, std::size_t count, float* to) {
    filter_of(rows, count, to);
}

SPDL_AVX2 void sharpen_avx2(const std::uint8_t* const rows[3], std::size_t begin, std::size_t end, float factor,
                            std::uint8_t* to) {
    sharpen_of(rows, begin, end, factor, to);
}

constexpr PixelKernels kAvx2{filter_avx2, sharpen_avx2};

#endif

}  // namespace

const PixelKernels& pixel_kernels() noexcept {
#if defined(__x86_64__)
    if (std::string_view(kernels().name) != kScalarKernels.name) {
        return kAvx2;
    }
#endif
    return kPortable;
}

}  // namespace spdl
