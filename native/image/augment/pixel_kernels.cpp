#include <algorithm>
#include <cstring>
#include <string_view>

#include "image/augment/pixel_steps.h"
#include "image/resize/kernels.h"
#include "media/pixel_format.h"

// The loops below are written for compilers to make vectors of. Each instruction set gets a copy of them: a function
// that is always part of its caller is compiled for the caller's instructions.
#define SPDL_INLINE inline __attribute__((always_inline))

namespace spdl {
namespace {

constexpr std::size_t kChunk = 256;  // Pixels whose floats stay in the first cache.
constexpr float kWhite = 255;

// The shares of a gray in ITU-R BT.601, with the digits that Pillow and torchvision take.
constexpr float kRed = 0.2989F;
constexpr float kGreen = 0.587F;
constexpr float kBlue = 0.114F;

struct Chunk {
    alignas(64) float red[kChunk];
    alignas(64) float green[kChunk];
    alignas(64) float blue[kChunk];
};

SPDL_INLINE float bounded(float value) {
    value = value < 0 ? 0 : value;
    return value > kWhite ? kWhite : value;
}

SPDL_INLINE float gray(float red, float green, float blue) {
    return kRed * red + kGreen * green + kBlue * blue;
}

SPDL_INLINE void scale_all(Chunk& chunk, float factor) {
    for (float* const plane : {chunk.red, chunk.green, chunk.blue}) {
        for (std::size_t i = 0; i < kChunk; ++i) {
            plane[i] = bounded(plane[i] * factor);
        }
    }
}

SPDL_INLINE void blend_with(Chunk& chunk, float mean, float factor) {
    const float rest = (1 - factor) * mean;
    for (float* const plane : {chunk.red, chunk.green, chunk.blue}) {
        for (std::size_t i = 0; i < kChunk; ++i) {
            plane[i] = bounded(plane[i] * factor + rest);
        }
    }
}

SPDL_INLINE void saturate(Chunk& chunk, float factor) {
    for (std::size_t i = 0; i < kChunk; ++i) {
        const float rest = (1 - factor) * gray(chunk.red[i], chunk.green[i], chunk.blue[i]);
        chunk.red[i] = bounded(chunk.red[i] * factor + rest);
        chunk.green[i] = bounded(chunk.green[i] * factor + rest);
        chunk.blue[i] = bounded(chunk.blue[i] * factor + rest);
    }
}

// One channel of a colour of HSV: the largest channel less a share of the difference to the smallest. `place` says
// where on the circle, in sixths of it, the channel stands.
SPDL_INLINE float channel_at(float place, float largest, float difference) {
    place = place < 0 ? place + 6 : place;
    place = place >= 6 ? place - 6 : place;
    place = place >= 6 ? place - 6 : place;
    float share = place < 4 - place ? place : 4 - place;
    share = share < 0 ? 0 : share;
    share = share > 1 ? 1 : share;
    return largest - difference * share;
}

SPDL_INLINE void turn(Chunk& chunk, float sixths) {
    for (std::size_t i = 0; i < kChunk; ++i) {
        const float red = chunk.red[i];
        const float green = chunk.green[i];
        const float blue = chunk.blue[i];
        float largest = red > green ? red : green;
        largest = largest > blue ? largest : blue;
        float smallest = red < green ? red : green;
        smallest = smallest < blue ? smallest : blue;
        const float difference = largest - smallest;
        // Of gray pixels, every hue gives the same.
        const float divisor = difference > 1e-6F ? difference : 1e-6F;
        const float numerator = red == largest ? green - blue : green == largest ? blue - red : red - green;
        const float base = red == largest ? 0.0F : green == largest ? 2.0F : 4.0F;
        const float hue = base + numerator / divisor + sixths;
        chunk.red[i] = channel_at(hue + 5, largest, difference);
        chunk.green[i] = channel_at(hue + 3, largest, difference);
        chunk.blue[i] = channel_at(hue + 1, largest, difference);
    }
}

SPDL_INLINE void run_steps(const JitterPlan& plan, std::size_t steps, Chunk& chunk) {
    for (std::size_t i = 0; i < steps; ++i) {
        const float factor = plan.jitter[plan.order[i]];
        switch (plan.order[i]) {
            case JitterStep::kBrightness:
                scale_all(chunk, factor);
                break;
            case JitterStep::kContrast:
                blend_with(chunk, plan.mean, factor);
                break;
            case JitterStep::kSaturation:
                saturate(chunk, factor);
                break;
            default:
                turn(chunk, 6 * factor);
        }
    }
}

// Bytes as floats, in planes.
void spread(const JitterPlan& plan, const std::uint8_t* pixels, std::size_t count, Chunk& chunk) {
    static const ArrayFormat format(Channels::kRgb, Layout::kNchw, ElementType::kFloat32, {1, 1, 1}, {0, 0, 0});
    std::uint8_t* const first = reinterpret_cast<std::uint8_t*>(plan.swapped ? chunk.blue : chunk.red);
    std::uint8_t* const last = reinterpret_cast<std::uint8_t*>(plan.swapped ? chunk.red : chunk.blue);
    std::uint8_t* const planes[] = {first, reinterpret_cast<std::uint8_t*>(chunk.green), last};
    kernels().write_pixels(format, pixels, count, planes);
    for (float* const plane : {chunk.red, chunk.green, chunk.blue}) {
        std::fill(plane + count, plane + kChunk, 0.0F);
    }
}

SPDL_INLINE void gather(const JitterPlan& plan, const Chunk& chunk, std::size_t count, std::uint8_t* pixels) {
    const float* const first = plan.swapped ? chunk.blue : chunk.red;
    const float* const last = plan.swapped ? chunk.red : chunk.blue;
    for (std::size_t i = 0; i < count; ++i) {
        pixels[3 * i] = static_cast<std::uint8_t>(static_cast<int>(first[i] + 0.5F));
        pixels[3 * i + 1] = static_cast<std::uint8_t>(static_cast<int>(chunk.green[i] + 0.5F));
        pixels[3 * i + 2] = static_cast<std::uint8_t>(static_cast<int>(last[i] + 0.5F));
    }
}

SPDL_INLINE double sum_gray_of(const JitterPlan& plan, const std::uint8_t* pixels, std::size_t count) {
    // Several sums, so that a vector holds them, and always as many, so that all instruction sets add in one order.
    constexpr std::size_t kSums = 8;
    double total = 0;
    Chunk chunk;
    for (std::size_t at = 0; at < count; at += kChunk) {
        const std::size_t size = std::min(kChunk, count - at);
        spread(plan, pixels + 3 * at, size, chunk);
        run_steps(plan, plan.before_contrast, chunk);
        float sums[kSums] = {};
        for (std::size_t i = 0; i < kChunk; i += kSums) {
            for (std::size_t j = 0; j < kSums; ++j) {
                sums[j] += gray(chunk.red[i + j], chunk.green[i + j], chunk.blue[i + j]);
            }
        }
        for (const float sum : sums) {
            total += static_cast<double>(sum);
        }
    }
    return total;
}

SPDL_INLINE void apply_to(const JitterPlan& plan, std::uint8_t* pixels, std::size_t count) {
    Chunk chunk;
    for (std::size_t at = 0; at < count; at += kChunk) {
        const std::size_t size = std::min(kChunk, count - at);
        spread(plan, pixels + 3 * at, size, chunk);
        run_steps(plan, plan.steps, chunk);
        gather(plan, chunk, size, pixels + 3 * at);
    }
}

double sum_gray_portable(const JitterPlan& plan, const std::uint8_t* pixels, std::size_t count) {
    return sum_gray_of(plan, pixels, count);
}

void apply_portable(const JitterPlan& plan, std::uint8_t* pixels, std::size_t count) {
    apply_to(plan, pixels, count);
}

constexpr JitterKernels kPortableJitter{sum_gray_portable, apply_portable};

#if defined(__x86_64__)

#define SPDL_AVX2 __attribute__((target("avx2")))

SPDL_AVX2 double sum_gray_avx2(const JitterPlan& plan, const std::uint8_t* pixels, std::size_t count) {
    return sum_gray_of(plan, pixels, count);
}

SPDL_AVX2 void apply_avx2(const JitterPlan& plan, std::uint8_t* pixels, std::size_t count) {
    apply_to(plan, pixels, count);
}

constexpr JitterKernels kAvx2Jitter{sum_gray_avx2, apply_avx2};

#endif

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

constexpr PixelKernels kPortablePixels{filter_portable, sharpen_portable};

#if defined(__x86_64__)

SPDL_AVX2 void filter_avx2(const FilterRows& rows, std::size_t count, float* to) {
    filter_of(rows, count, to);
}

SPDL_AVX2 void sharpen_avx2(const std::uint8_t* const rows[3], std::size_t begin, std::size_t end, float factor,
                            std::uint8_t* to) {
    sharpen_of(rows, begin, end, factor, to);
}

constexpr PixelKernels kAvx2Pixels{filter_avx2, sharpen_avx2};

#endif

// Chooses what goes with the kernels of the resize.
template <typename Kernels>
const Kernels& chosen(const Kernels& portable, const Kernels& others) {
    return std::string_view(kernels().name) == kScalarKernels.name ? portable : others;
}

}  // namespace

#if defined(__x86_64__)
const JitterKernels& jitter_kernels() noexcept {
    return chosen(kPortableJitter, kAvx2Jitter);
}

const PixelKernels& pixel_kernels() noexcept {
    return chosen(kPortablePixels, kAvx2Pixels);
}
#else
const JitterKernels& jitter_kernels() noexcept {
    return kPortableJitter;
}

const PixelKernels& pixel_kernels() noexcept {
    return kPortablePixels;
}
#endif

}  // namespace spdl
