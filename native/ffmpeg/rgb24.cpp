#include "ffmpeg/rgb24.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <string_view>

#include "core/limits.h"
#include "core/media_error.h"
#include "ffmpeg/last_words.h"

namespace spdl {
namespace {

const char* format_name(int format) {
    const char* const name = av_get_pix_fmt_name(static_cast<AVPixelFormat>(format));
    return name == nullptr ? "unknown" : name;
}

}  // namespace

void Rgb24Converter::prepare(const AVFrame& frame) {
    // Exact rounding and full chroma: half-resolution shortcuts show in photos.
    constexpr int kFlags = SWS_BICUBIC | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT | SWS_FULL_CHR_H_INP;
    context_.reset(sws_getCachedContext(context_.release(), frame.width, frame.height,
                                        static_cast<AVPixelFormat>(frame.format), frame.width, frame.height,
                                        AV_PIX_FMT_RGB24, kFlags, nullptr, nullptr, nullptr));
    if (!context_) {
        throw MediaError(std::string("cannot convert the pixel format \"") + format_name(frame.format) + "\" to rgb24");
    }
    const int matrix = frame.colorspace == AVCOL_SPC_UNSPECIFIED || frame.colorspace == AVCOL_SPC_RGB
                           ? SWS_CS_DEFAULT
                           : static_cast<int>(frame.colorspace);
    const bool by_format = std::string_view(format_name(frame.format)).starts_with("yuvj");
    const int full_range = frame.color_range == AVCOL_RANGE_JPEG || by_format ? 1 : 0;
    // Refused for formats without such a choice, which then need none.
    sws_setColorspaceDetails(context_.get(), sws_getCoefficients(matrix), full_range,
                             sws_getCoefficients(SWS_CS_DEFAULT), 1, 0, 1 << 16, 1 << 16);
}

void Rgb24Converter::convert(const AVFrame& frame, RowSink& sink) {
    const LastWords words;
    const AVFrame* source = &frame;
    if (frame.format != AV_PIX_FMT_RGB24) {
        prepare(frame);
        if (!rgb_ || rgb_->width != frame.width || rgb_->height != frame.height) {
            rgb_ = make_frame();
            rgb_->format = AV_PIX_FMT_RGB24;
            rgb_->width = frame.width;
            rgb_->height = frame.height;
            words.check(av_frame_get_buffer(rgb_.get(), 0), "cannot convert the image to rgb24");
        }
        words.check(sws_scale(context_.get(), frame.data, frame.linesize, 0, frame.height, rgb_->data, rgb_->linesize),
                    "cannot convert the image to rgb24");
        source = rgb_.get();
    }
    const std::size_t bytes = 3 * static_cast<std::size_t>(frame.width);
    for (int y = 0; y < frame.height; ++y) {
        std::memcpy(sink.row(y), source->data[0] + static_cast<std::ptrdiff_t>(y) * source->linesize[0], bytes);
        sink.commit(y, 1);
    }
    if (rgb_ && bytes * static_cast<std::size_t>(frame.height) > kKeptBytes) {
        rgb_.reset();
    }
}

}  // namespace spdl
