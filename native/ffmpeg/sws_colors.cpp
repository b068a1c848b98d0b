#include "ffmpeg/sws_colors.h"

#include <string_view>

#include "ffmpeg/ffmpeg_frame.h"

namespace spdl {

FrameColors frame_colors(const AVFrame& frame) {
    const int matrix = frame.colorspace == AVCOL_SPC_UNSPECIFIED || frame.colorspace == AVCOL_SPC_RGB
                           ? SWS_CS_DEFAULT
                           : static_cast<int>(frame.colorspace);
    const bool by_format = std::string_view(ffmpeg_format_name(frame.format)).starts_with("yuvj");
    // Gray that says nothing of its range has all levels.
    const AVPixFmtDescriptor* const format = av_pix_fmt_desc_get(static_cast<AVPixelFormat>(frame.format));
    const bool gray = format != nullptr && format->nb_components <= 2 &&
                      (format->flags & (AV_PIX_FMT_FLAG_PAL | AV_PIX_FMT_FLAG_RGB)) == 0;
    const bool open = frame.color_range == AVCOL_RANGE_UNSPECIFIED;
    return {sws_getCoefficients(matrix), frame.color_range == AVCOL_RANGE_JPEG || by_format || (gray && open)};
}

void follow_colors(SwsContext& context, const AVFrame& frame) {
    const FrameColors colors = frame_colors(frame);
    // libswscale refuses this for formats without such a choice, which do not need it.
    sws_setColorspaceDetails(&context, colors.matrix, colors.full_range ? 1 : 0, sws_getCoefficients(SWS_CS_DEFAULT), 1,
                             0, 1 << 16, 1 << 16);
}

}  // namespace spdl
