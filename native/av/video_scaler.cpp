#include "av/video_scaler.h"

#include <cerrno>
#include <new>
#include <string>

#include "av/scaling_context.h"
#include "core/media_error.h"
#include "ffmpeg/ffmpeg_frame.h"
#include "ffmpeg/ffmpeg_log.h"

namespace spdl {
namespace {

AVPixelFormat packed_format(Channels channels) {
    switch (channels) {
        case Channels::kBgr:
            return AV_PIX_FMT_BGR24;
        case Channels::kGray:
            return AV_PIX_FMT_GRAY8;
        case Channels::kRgb:
            break;
    }
    return AV_PIX_FMT_RGB24;
}

bool same_form(const AVFrame& a, const AVFrame& b) {
    return a.width == b.width && a.height == b.height && a.format == b.format && a.colorspace == b.colorspace &&
           a.color_range == b.color_range;
}

}  // namespace

void VideoScaler::prepare(const AVFrame& frame, Size size, AVPixelFormat format, Interpolation interpolation) {
    const bool fits = scaled_ && Size{scaled_->width, scaled_->height} == size && scaled_->format == format;
    if (context_ && fits && same_form(*form_, frame) && interpolation_ == interpolation) {
        return;
    }
    form_ = make_frame();
    context_ = make_scaling_context(frame, size, format, interpolation);
    if (!context_) {
        throw MediaError(std::string("cannot scale and convert the pixel format \"") +
                         ffmpeg_format_name(frame.format) + "\" to " + ffmpeg_format_name(format));
    }
    form_->width = frame.width;
    form_->height = frame.height;
    form_->format = frame.format;
    form_->colorspace = frame.colorspace;
    form_->color_range = frame.color_range;
    interpolation_ = interpolation;
    if (!fits) {
        scaled_ = make_frame();
        scaled_->width = size.width;
        scaled_->height = size.height;
        scaled_->format = format;
        if (const int code = av_frame_get_buffer(scaled_.get(), 0); code < 0) {
            scaled_.reset();
            if (code == AVERROR(ENOMEM)) {
                throw std::bad_alloc();
            }
            throw MediaError("cannot scale the picture to " + std::to_string(size.width) + "x" +
                             std::to_string(size.height) + ": FFmpeg takes no picture of this size");
        }
    }
}

const AVFrame& VideoScaler::scale(const AVFrame& frame, Size size, Channels channels, Interpolation interpolation) {
    const FfmpegLog log;
    const AVPixelFormat format = packed_format(channels);
    if (frame.format == format && Size{frame.width, frame.height} == size) {
        return frame;
    }
    prepare(frame, size, format, interpolation);
    log.check(sws_scale(context_.get(), frame.data, frame.linesize, 0, frame.height, scaled_->data, scaled_->linesize),
              "cannot scale the picture");
    return *scaled_;
}

}  // namespace spdl
