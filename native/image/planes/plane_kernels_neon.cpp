#if defined(__aarch64__)

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "image/planes/plane_kernels.h"

namespace spdl {
namespace {

constexpr std::size_t kColumns = 16;

inline void add_products(int32x4_t (&sums)[4], uint8x16_t bytes, std::int16_t weight) {
    const int16x8_t left = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(bytes)));
    const int16x8_t right = vreinterpretq_s16_u16(vmovl_high_u8(bytes));
    sums[0] = vmlal_n_s16(sums[0], vget_low_s16(left), weight);
    sums[1] = vmlal_high_n_s16(sums[1], left, weight);
    sums[2] = vmlal_n_s16(sums[2], vget_low_s16(right), weight);
    sums[3] = vmlal_high_n_s16(sums[3], right, weight);
}

inline void shorten_columns(const std::int32_t* weights, int count, const std::uint8_t* const* rows, FineLevel* output,
                            std::size_t column) {
    constexpr int kShift = fine::kBits - kFineBits;
    constexpr std::int32_t kHalfBits = 16;
    int32x4_t sums[4] = {vdupq_n_s32(0), vdupq_n_s32(0), vdupq_n_s32(0), vdupq_n_s32(0)};
    for (int pair = 0; pair < count; ++pair, rows += 2) {
        add_products(sums, vld1q_u8(rows[0] + column), static_cast<std::int16_t>(weights[pair] & 0xffff));
        add_products(sums, vld1q_u8(rows[1] + column), static_cast<std::int16_t>(weights[pair] >> kHalfBits));
    }
    vst1q_s16(output + column, vcombine_s16(vqrshrn_n_s32(sums[0], kShift), vqrshrn_n_s32(sums[1], kShift)));
    vst1q_s16(output + column + kColumns / 2,
              vcombine_s16(vqrshrn_n_s32(sums[2], kShift), vqrshrn_n_s32(sums[3], kShift)));
}

void shorten(const std::int32_t* weights, int count, const std::uint8_t* const* rows, FineLevel* output,
             std::size_t size) noexcept {
    if (size < kColumns) {
        kScalarPlanes.shorten(weights, count, rows, output, size);
        return;
    }
    for (std::size_t column = 0; column + kColumns <= size; column += kColumns) {
        shorten_columns(weights, count, rows, output, column);
    }
    if (size % kColumns != 0) {
        // Some of the columns once more.
        shorten_columns(weights, count, rows, output, size - kColumns);
    }
}

// The sums of four outputs that are near each other.
inline int32x4_t sum_near(const FineLevel* row, const fine::NearGroup& group, int lane, int count) {
    const FineLevel* source = row + group.base[lane];
    const uint8x16_t shuffle = vld1q_u8(group.shuffle + 16 * lane);
    const fine::NearPair* pair = group.pairs();
    int32x4_t sum = vdupq_n_s32(0);
    for (int i = 0; i < count; ++i, ++pair, source += 2) {
        const int16x8_t taps = vreinterpretq_s16_u8(vqtbl1q_u8(vreinterpretq_u8_s16(vld1q_s16(source)), shuffle));
        const int16x8_t weights = vld1q_s16(pair->weights + 8 * lane);
        sum = vaddq_s32(
            sum, vpaddq_s32(vmull_s16(vget_low_s16(taps), vget_low_s16(weights)), vmull_high_s16(taps, weights)));
    }
    return sum;
}

// The sums, not yet added up, of an output that is far from its neighbours.
inline int32x4_t sum_far(const FineLevel* source, const std::int16_t* weights, int taps) {
    int32x4_t sum = vdupq_n_s32(0);
    for (int tap = 0; tap < taps; tap += 4) {
        sum = vmlal_s16(sum, vld1_s16(source + tap), vld1_s16(weights + tap));
    }
    return sum;
}

void narrow(const ResampleTable& table, const FineLevel* row, FineLevel* output) noexcept {
    if (table.lanes_fit) {
        const int count = fine::pairs(table);
        const std::uint8_t* packed = fine::near_groups(table);
        for (int i = 0; i < table.output; i += fine::kGroup, packed += fine::near_group_bytes(table)) {
            const auto& group = *reinterpret_cast<const fine::NearGroup*>(packed);
            for (int lane = 0; lane < fine::kGroup / fine::kLane; ++lane) {
                vst1_s16(output + i + fine::kLane * lane,
                         vqrshrn_n_s32(sum_near(row, group, lane, count), fine::kBits));
            }
        }
        return;
    }
    const fine::Row packed = fine::row(table);
    const std::int32_t* first = packed.first;
    const std::int16_t* weights = packed.weights;
    for (int i = 0; i < table.output; i += fine::kLane, first += fine::kLane) {
        int32x4_t sums[fine::kLane];
        for (int output_of_lane = 0; output_of_lane < fine::kLane; ++output_of_lane, weights += packed.taps) {
            sums[output_of_lane] = sum_far(row + first[output_of_lane], weights, packed.taps);
        }
        const int32x4_t all = vpaddq_s32(vpaddq_s32(sums[0], sums[1]), vpaddq_s32(sums[2], sums[3]));
        vst1_s16(output + i, vqrshrn_n_s32(all, fine::kBits));
    }
}

inline int16x8_t centred(const FineLevel* levels, FineLevel middle) {
    return vqsubq_s16(vld1q_s16(levels), vdupq_n_s16(middle));
}

// Multiplies by a factor that is this one and 1.
inline int16x8_t more_than(int16x8_t chroma, std::int16_t factor) {
    return vqaddq_s16(vqrdmulhq_n_s16(chroma, YuvColors::kOne), vqrdmulhq_n_s16(chroma, factor));
}

// Writes eight pixels.
inline void write_pixels(const YuvColors& colors, const YuvRow& row, std::size_t at, bool blue_first,
                         std::uint8_t* to) {
    constexpr int kShift = kFineBits - 1;
    const int16x8_t luma = centred(row.y + at, colors.black);
    const int16x8_t y = vaddq_s16(vqrdmulhq_n_s16(luma, colors.luma), vdupq_n_s16(1 << (kShift - 1)));
    const int16x8_t cb = centred(row.cb + at, kMiddle);
    const int16x8_t cr = centred(row.cr + at, kMiddle);
    const int16x8_t red = vqaddq_s16(y, more_than(cr, colors.red_from_cr_less_1));
    const int16x8_t green =
        vqsubq_s16(vqsubq_s16(y, vqrdmulhq_n_s16(cb, colors.green_from_cb)), vqrdmulhq_n_s16(cr, colors.green_from_cr));
    const int16x8_t blue = vqaddq_s16(y, more_than(cb, colors.blue_from_cb_less_1));
    uint8x8x3_t pixels{{vqshrun_n_s16(red, kShift), vqshrun_n_s16(green, kShift), vqshrun_n_s16(blue, kShift)}};
    if (blue_first) {
        std::swap(pixels.val[0], pixels.val[2]);
    }
    vst3_u8(to, pixels);
}

void write(const YuvColors& colors, const YuvRow& row, std::size_t count, bool blue_first, std::uint8_t* to) noexcept {
    constexpr std::size_t kPixels = 8;
    std::size_t i = 0;
    for (; i + kPixels <= count; i += kPixels, to += 3 * kPixels) {
        write_pixels(colors, row, i, blue_first, to);
    }
    kScalarPlanes.write(colors, {row.y + i, row.cb + i, row.cr + i}, count - i, blue_first, to);
}

}  // namespace

const PlaneKernels kNeonPlanes{shorten, narrow, write};

}  // namespace spdl

#endif
