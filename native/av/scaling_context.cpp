#include "av/scaling_context.h"

#include <new>

#include "ffmpeg/sws_colors.h"

namespace spdl {

namespace {

int scaling_flag(Interpolation interpolation) {
    switch (interpolation) {
        case Interpolation::kNearest:
            return SWS_POINT;
        case Interpolation::kArea:
            return SWS_AREA;
        case Interpolation::kBilinear:
            return SWS_BILINEAR;
        case Interpolation::kBicubic:
            return SWS_BICUBIC;
        case Interpolation::kLanczos:
            break;
    }
    return SWS_LANCZOS;
}

}  // namespace

SwsContextPtr make_scaling_context(const AVFrame& like, Size size, AVPixelFormat format, Interpolation interpolation) {
    SwsContextPtr context(sws_alloc_context());
    if (!context) {
        throw std::bad_alloc();
    }
    const auto set = [&](const char* option, int value) { av_opt_set_int(context.get(), option, value, 0); };
    set("srcw", like.width);
    set("srch", like.height);
    set("src_format", like.format);
    set("dstw", size.width);
    set("dsth", size.height);
    set("dst_format", format);
    set("sws_flags", scaling_flag(interpolation));
    if (like.format == AV_PIX_FMT_YUV420P) {
        // MPEG-2's place of chroma: halfway between two rows.
        set("src_v_chr_pos", 128);
    }
    // Planes that stay what they are keep their levels.
    if (format != like.format) {
        follow_colors(*context, like);
    }
    if (sws_init_context(context.get(), nullptr, nullptr) < 0) {
        return nullptr;
    }
    return context;
}

}  // namespace spdl
