#include "av/yuv_planes.h"

#include <cmath>

#include "ffmpeg/sws_colors.h"

namespace spdl {
namespace {

bool has_planes_of_bytes(const AVPixFmtDescriptor& format) {
    constexpr std::uint64_t kOthers = AV_PIX_FMT_FLAG_RGB | AV_PIX_FMT_FLAG_ALPHA | AV_PIX_FMT_FLAG_PAL |
                                      AV_PIX_FMT_FLAG_BITSTREAM | AV_PIX_FMT_FLAG_HWACCEL | AV_PIX_FMT_FLAG_FLOAT |
                                      AV_PIX_FMT_FLAG_BAYER;
    if ((format.flags & kOthers) != 0 || (format.nb_components != 1 && format.nb_components != kPlanes)) {
        return false;
    }
    for (int i = 0; i < format.nb_components; ++i) {
        const AVComponentDescriptor& component = format.comp[i];
        if (component.plane != i || component.step != 1 || component.offset != 0 || component.shift != 0 ||
            component.depth != 8) {
            return false;
        }
    }
    return true;
}

// Returns the conversion to full range that FFmpeg does with these factors, which have 16 bits of fraction and are for
// planes of limited range: 219 levels of luma, 224 of chroma.
YuvColors yuv_colors(const FrameColors& colors) {
    const double chroma = colors.full_range ? 224.0 / 255.0 : 1.0;
    const auto fixed = [](double factor) {
        return static_cast<std::int16_t>(std::lround(factor * (1 << YuvColors::kBits)));
    };
    const auto factor = [&](int i) { return colors.matrix[i] / 65536.0 * chroma; };
    return {
        .black = static_cast<FineLevel>(colors.full_range ? 0 : 16 << kFineBits),
        .luma = fixed(colors.full_range ? 1.0 : 255.0 / 219.0),
        .red_from_cr_less_1 = fixed(factor(0) - 1),
        .green_from_cb = fixed(factor(2)),
        .green_from_cr = fixed(factor(3)),
        .blue_from_cb_less_1 = fixed(factor(1) - 1),
    };
}

}  // namespace

std::optional<YuvImage> yuv_planes(const AVFrame& frame) {
    const AVPixFmtDescriptor* const format = av_pix_fmt_desc_get(static_cast<AVPixelFormat>(frame.format));
    if (format == nullptr || !has_planes_of_bytes(*format)) {
        return std::nullopt;
    }
    YuvImage image;
    image.size = {frame.width, frame.height};
    for (std::size_t plane = 0; plane < format->nb_components; ++plane) {
        image.planes[plane] = {frame.data[plane], frame.linesize[plane]};
    }
    image.chroma_shift_x = format->log2_chroma_w;
    image.chroma_shift_y = format->log2_chroma_h;
    image.colors = yuv_colors(frame_colors(frame));
    return image;
}

}  // namespace spdl
