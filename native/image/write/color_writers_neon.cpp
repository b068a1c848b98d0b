#if defined(__aarch64__)

#include <arm_neon.h>

#include <utility>

#include "image/write/color_writers.h"

namespace spdl {
namespace {

constexpr std::size_t kPixels = 16;  // At a time.

struct Colors {
    uint8x8_t red;
    uint8x8_t green;
    uint8x8_t blue;
};

// The difference from the middle.
inline int16x8_t centred(uint8x8_t chroma) {
    return vreinterpretq_s16_u16(vsubl_u8(chroma, vdup_n_u8(128)));
}

inline Colors convert(uint8x8_t luma, uint8x8_t blue_chroma, uint8x8_t red_chroma) {
    const int16x8_t y = vreinterpretq_s16_u16(vmovl_u8(luma));
    const int16x8_t cb = centred(blue_chroma);
    const int16x8_t cr = centred(red_chroma);
    const int16x8_t green = vaddq_s16(vqrdmulhq_n_s16(vshlq_n_s16(cb, colors::kGreenBits), colors::kGreenFromCb),
                                      vqrdmulhq_n_s16(vshlq_n_s16(cr, colors::kGreenBits), colors::kGreenFromCr));
    return {
        vqmovun_s16(vaddq_s16(y, vqrdmulhq_n_s16(vaddq_s16(cr, cr), colors::kRedFromCr))),
        vqmovun_s16(vsubq_s16(y, vrshrq_n_s16(green, colors::kGreenBits))),
        vqmovun_s16(vaddq_s16(y, vqrdmulhq_n_s16(vaddq_s16(cb, cb), colors::kBlueFromCb))),
    };
}

}  // namespace

void write_colors_neon(const ColorPlanes& planes, std::size_t count, bool blue_first, std::uint8_t* to) noexcept {
    std::size_t i = 0;
    for (; i + kPixels <= count; i += kPixels, to += 3 * kPixels) {
        const uint8x16_t y = vld1q_u8(planes.y + i);
        const uint8x16_t cb = vld1q_u8(planes.cb + i);
        const uint8x16_t cr = vld1q_u8(planes.cr + i);
        const Colors low = convert(vget_low_u8(y), vget_low_u8(cb), vget_low_u8(cr));
        const Colors high = convert(vget_high_u8(y), vget_high_u8(cb), vget_high_u8(cr));
        uint8x16x3_t pixels{
            {vcombine_u8(low.red, high.red), vcombine_u8(low.green, high.green), vcombine_u8(low.blue, high.blue)}};
        if (blue_first) {
            std::swap(pixels.val[0], pixels.val[2]);
        }
        vst3q_u8(to, pixels);
    }
    write_colors_scalar({planes.y + i, planes.cb + i, planes.cr + i}, count - i, blue_first, to);
}

}  // namespace spdl

#endif
