#if defined(__aarch64__)

#include <arm_neon.h>

#include <algorithm>
#include <cstring>

#include "image/resize/kernels.h"

// Every 64-bit ARM processor has this instruction set, so nothing has to be asked. Its 32-bit multiplier takes the
// weights directly, and each sum is the same integer as in the scalar variant. Of packed RGB and of columns, no other
// form of the table is needed.

namespace spdl {
namespace {

constexpr std::int32_t kHalf = 1 << (ResampleTable::kFractionBits - 1);
constexpr std::uint8_t kNone = 0xff;  // Looking it up gives 0.

bool supported() noexcept {
    return true;
}

void pack(ResampleTable& /*table*/) {}

// The places that the bytes of four 32-bit integers come from.
uint8x16_t lookup(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d) {
    const std::uint8_t bytes[16] = {a, kNone, kNone, kNone, b, kNone, kNone, kNone,
                                    c, kNone, kNone, kNone, d, kNone, kNone, kNone};
    return vld1q_u8(bytes);
}

inline int32x4_t pick(uint8x16_t bytes, uint8x16_t places) {
    return vreinterpretq_s32_u8(vqtbl1q_u8(bytes, places));
}

// Two vectors of sums, shifted and clipped to bytes.
inline uint8x8_t clip(int32x4_t left, int32x4_t right) {
    constexpr int kShift = ResampleTable::kFractionBits;
    return vqmovn_u16(vcombine_u16(vqmovun_s32(vshrq_n_s32(left, kShift)), vqmovun_s32(vshrq_n_s32(right, kShift))));
}

// Red, green and blue of up to four source pixels as 32-bit integers; the fourth is 0.
struct PixelLookup {
    uint8x16_t taps[4] = {lookup(0, 1, 2, kNone), lookup(3, 4, 5, kNone), lookup(6, 7, 8, kNone),
                          lookup(9, 10, 11, kNone)};
};

template <int kTap>
inline int32x4_t add_tap(int32x4_t sum, uint8x16_t pixels, const PixelLookup& lookups, int32x4_t weights) {
    return vmlaq_laneq_s32(sum, pick(pixels, lookups.taps[kTap]), weights, kTap);
}

// Horizontally, a vector holds one output pixel, and the rows share its weights.
template <int kRows>
void horizontal_rows(const ResampleTable& table, const std::uint8_t* const* sources,
                     std::uint8_t* const* outputs) noexcept {
    const PixelLookup lookups;
    const std::int32_t* all_weights = table.weights.data();
    for (int i = 0; i < table.output; ++i, all_weights += table.stride) {
        const auto index = static_cast<std::size_t>(i);
        const std::int32_t* weights = all_weights;
        std::ptrdiff_t at = 3 * static_cast<std::ptrdiff_t>(table.first[index]);
        int32x4_t sums[kRows];
        for (int row = 0; row < kRows; ++row) {
            sums[row] = vdupq_n_s32(kHalf);
        }
        int left = table.taps[index];
        for (; left >= 4; left -= 4, weights += 4, at += 12) {
            const int32x4_t four = vld1q_s32(weights);
            for (int row = 0; row < kRows; ++row) {
                const uint8x16_t pixels = vld1q_u8(sources[row] + at);
                sums[row] = add_tap<0>(sums[row], pixels, lookups, four);
                sums[row] = add_tap<1>(sums[row], pixels, lookups, four);
                sums[row] = add_tap<2>(sums[row], pixels, lookups, four);
                sums[row] = add_tap<3>(sums[row], pixels, lookups, four);
            }
        }
        for (; left > 0; --left, ++weights, at += 3) {
            const int32x4_t one = vld1q_dup_s32(weights);
            for (int row = 0; row < kRows; ++row) {
                sums[row] = add_tap<0>(sums[row], vld1q_u8(sources[row] + at), lookups, one);
            }
        }
        for (int row = 0; row < kRows; ++row) {
            // The next pixel overwrites the fourth byte.
            const std::uint32_t pixel = vget_lane_u32(vreinterpret_u32_u8(clip(sums[row], sums[row])), 0);
            std::memcpy(outputs[row] + 3 * index, &pixel, sizeof(pixel));
        }
    }
}

void horizontal(const ResampleTable& table, const std::uint8_t* const* sources, std::uint8_t* const* outputs,
                int count) noexcept {
    if (count == 2) {
        horizontal_rows<2>(table, sources, outputs);
    } else {
        horizontal_rows<1>(table, sources, outputs);
    }
}

// For a single channel, a vector holds four outputs. They share a load of 16 bytes, and each looks up its next tap
// there, if they are near enough to each other. Otherwise the portable variant takes over.
constexpr int kLane = 4;
constexpr int kLoad = 16;

// Followed by the weights of each tap, kLane integers.
struct LaneHead {
    std::uint8_t places[kLoad];
    std::int32_t base[kLane];  // The first is where the load begins.
};

// Beyond the last output, any one will do.
std::size_t output_at(const ResampleTable& table, int output) {
    return static_cast<std::size_t>(std::min(output, table.output - 1));
}

void pack_plane(ResampleTable& table) {
    const auto groups = static_cast<std::size_t>((table.output + kLane - 1) / kLane);
    table.packed.reserve(groups * (sizeof(LaneHead) + static_cast<std::size_t>(table.max_taps) * sizeof(int32x4_t)));
    table.lanes_fit = true;
    std::uint8_t* packed = table.packed.data();
    for (int group = 0; group < table.output; group += kLane) {
        auto* const head = reinterpret_cast<LaneHead*>(packed);
        packed += sizeof(LaneHead);
        const auto [base, last] = table.firsts(group, kLane);
        if (last - base > kLoad - 1) {
            table.lanes_fit = false;
            return;
        }
        head->base[0] = base;
        std::memset(head->places, kNone, sizeof(head->places));
        for (int lane = 0; lane < kLane; ++lane) {
            head->places[4 * lane] =
                static_cast<std::uint8_t>(table.first[output_at(table, group + lane)] - head->base[0]);
        }
        auto* weights = reinterpret_cast<std::int32_t*>(packed);
        packed += static_cast<std::size_t>(table.max_taps) * sizeof(int32x4_t);
        for (int tap = 0; tap < table.max_taps; ++tap) {
            for (int lane = 0; lane < kLane; ++lane) {
                const std::size_t output = output_at(table, group + lane);
                *weights++ =
                    tap < table.taps[output] ? table.weights[output * table.stride + static_cast<std::size_t>(tap)] : 0;
            }
        }
    }
}

template <int kRows>
void plane_rows(const ResampleTable& table, const std::uint8_t* const* sources, std::uint8_t* const* outputs) noexcept {
    const std::uint8_t* packed = table.packed.data();
    for (int output = 0; output < table.output; output += kLane) {
        const auto* const head = reinterpret_cast<const LaneHead*>(packed);
        packed += sizeof(LaneHead);
        const uint8x16_t places = vld1q_u8(head->places);
        int32x4_t sums[kRows];
        for (int row = 0; row < kRows; ++row) {
            sums[row] = vdupq_n_s32(kHalf);
        }
        for (std::ptrdiff_t tap = 0; tap < table.max_taps; ++tap, packed += sizeof(int32x4_t)) {
            const int32x4_t weights = vld1q_s32(reinterpret_cast<const std::int32_t*>(packed));
            for (int row = 0; row < kRows; ++row) {
                const int32x4_t taps = pick(vld1q_u8(sources[row] + head->base[0] + tap), places);
                sums[row] = vmlaq_s32(sums[row], taps, weights);
            }
        }
        for (int row = 0; row < kRows; ++row) {
            const std::uint32_t bytes = vget_lane_u32(vreinterpret_u32_u8(clip(sums[row], sums[row])), 0);
            std::memcpy(outputs[row] + output, &bytes, sizeof(bytes));
        }
    }
}

void plane(const ResampleTable& table, const std::uint8_t* const* sources, std::uint8_t* const* outputs,
           int count) noexcept {
    if (!table.lanes_fit) {
        kScalarKernels.plane.resample(table, sources, outputs, count);
    } else if (count == 2) {
        plane_rows<2>(table, sources, outputs);
    } else {
        plane_rows<1>(table, sources, outputs);
    }
}

constexpr std::size_t kColumns = 16;

// Vertically, every column has the same weights.
struct ColumnLookup {
    uint8x16_t parts[4] = {lookup(0, 1, 2, 3), lookup(4, 5, 6, 7), lookup(8, 9, 10, 11), lookup(12, 13, 14, 15)};
};

inline uint8x16_t vertical_columns(const ColumnLookup& lookups, const std::int32_t* weights, int taps,
                                   const std::uint8_t* const* rows, std::size_t column) {
    const int32x4_t half = vdupq_n_s32(kHalf);
    int32x4_t sums[4] = {half, half, half, half};
    for (int tap = 0; tap < taps; ++tap) {
        const uint8x16_t pixels = vld1q_u8(rows[tap] + column);
        const int32x4_t weight = vld1q_dup_s32(weights + tap);
        for (int part = 0; part < 4; ++part) {
            sums[part] = vmlaq_s32(sums[part], pick(pixels, lookups.parts[part]), weight);
        }
    }
    return vcombine_u8(clip(sums[0], sums[1]), clip(sums[2], sums[3]));
}

void vertical(const ResampleTable& table, int index, const std::uint8_t* const* rows, std::uint8_t* output,
              std::size_t size) noexcept {
    const ColumnLookup lookups;
    const auto at = static_cast<std::size_t>(index);
    const std::int32_t* const weights = table.weights.data() + at * table.stride;
    const int taps = table.taps[at];
    std::size_t column = 0;
    for (; column + kColumns <= size; column += kColumns) {
        vst1q_u8(output + column, vertical_columns(lookups, weights, taps, rows, column));
    }
    if (column < size) {
        std::uint8_t rest[kColumns];
        vst1q_u8(rest, vertical_columns(lookups, weights, taps, rows, column));
        std::memcpy(output + column, rest, size - column);
    }
}

}  // namespace

const Kernels kNeonKernels{"neon", supported, {pack, horizontal}, {pack_plane, plane}, nullptr,
                           pack,   vertical,  write_pixels_neon,  write_colors_neon,   &kNeonPlanes};

}  // namespace spdl

#endif
