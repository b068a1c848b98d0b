#if defined(__aarch64__)

#include <arm_neon.h>

#include <utility>

#include "image/write/pixel_writers.h"

namespace spdl {
namespace {

inline void store(float* to, float32x4_t values) {
    vst1q_f32(to, values);
}

inline void store(std::uint16_t* to, float32x4_t values) {
    vst1_u16(to, vreinterpret_u16_f16(vcvt_f16_f32(values)));
}

// Rounds once, as in every other instruction set.
inline float32x4_t to_floats(uint32x4_t bytes, float32x4_t scale, float32x4_t offset) {
    return vfmaq_f32(offset, vcvtq_f32_u32(bytes), scale);
}

// Returns how many pixels are written, a multiple of 8.
template <typename Element>
std::size_t write_planes(const ArrayFormat& format, const std::uint8_t* pixels, std::size_t count,
                         std::uint8_t* const* planes) {
    constexpr std::size_t kPixels = 8;
    std::size_t i = 0;
    for (; i + kPixels <= count; i += kPixels) {
        const uint8x8x3_t bytes = vld3_u8(pixels + 3 * i);
        for (std::size_t channel = 0; channel < 3; ++channel) {
            const float32x4_t scale = vdupq_n_f32(format.scale()[channel]);
            const float32x4_t offset = vdupq_n_f32(format.offset()[channel]);
            const uint16x8_t wide = vmovl_u8(bytes.val[channel]);
            auto* const to = reinterpret_cast<Element*>(planes[channel]) + i;
            store(to, to_floats(vmovl_u16(vget_low_u16(wide)), scale, offset));
            store(to + 4, to_floats(vmovl_u16(vget_high_u16(wide)), scale, offset));
        }
    }
    return i;
}

template <typename Element>
std::size_t write_packed(const ArrayFormat& format, const std::uint8_t* pixels, std::size_t count, std::uint8_t* to) {
    // Three vectors are four whole pixels.
    constexpr std::size_t kVector = 4;
    constexpr std::uint8_t kNone = 0xff;
    float32x4_t scale[3];
    float32x4_t offset[3];
    uint8x16_t places[3];
    for (std::size_t part = 0; part < 3; ++part) {
        float scales[kVector];
        float offsets[kVector];
        std::uint8_t bytes[4 * kVector];
        for (std::size_t j = 0; j < 4 * kVector; ++j) {
            bytes[j] = j % 4 == 0 ? static_cast<std::uint8_t>(part * kVector + j / 4) : kNone;
        }
        for (std::size_t j = 0; j < kVector; ++j) {
            scales[j] = format.scale()[(part * kVector + j) % 3];
            offsets[j] = format.offset()[(part * kVector + j) % 3];
        }
        scale[part] = vld1q_f32(scales);
        offset[part] = vld1q_f32(offsets);
        places[part] = vld1q_u8(bytes);
    }
    std::size_t i = 0;
    for (; i + kVector <= count; i += kVector) {
        const uint8x16_t bytes = vld1q_u8(pixels + 3 * i);
        for (std::size_t part = 0; part < 3; ++part) {
            const uint32x4_t integers = vreinterpretq_u32_u8(vqtbl1q_u8(bytes, places[part]));
            store(reinterpret_cast<Element*>(to) + 3 * i + part * kVector,
                  to_floats(integers, scale[part], offset[part]));
        }
    }
    return i;
}

std::size_t write_byte_planes(const std::uint8_t* pixels, std::size_t count, std::uint8_t* const* planes) {
    constexpr std::size_t kPixels = 16;
    std::size_t i = 0;
    for (; i + kPixels <= count; i += kPixels) {
        const uint8x16x3_t bytes = vld3q_u8(pixels + 3 * i);
        for (std::size_t channel = 0; channel < 3; ++channel) {
            vst1q_u8(planes[channel] + i, bytes.val[channel]);
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

void write_pixels_neon(const ArrayFormat& format, const std::uint8_t* pixels, std::size_t count,
                       std::uint8_t* const* planes) noexcept {
    write_pixels_from(write_vectors(format, pixels, count, planes), format, pixels, count, planes);
}

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

inline Colors to_colors(uint8x8_t luma, uint8x8_t blue_chroma, uint8x8_t red_chroma) {
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
        const Colors low = to_colors(vget_low_u8(y), vget_low_u8(cb), vget_low_u8(cr));
        const Colors high = to_colors(vget_high_u8(y), vget_high_u8(cb), vget_high_u8(cr));
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
