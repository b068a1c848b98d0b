#include "ffmpeg/pixel_converter.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <string>

#include "core/limits.h"
#include "core/media_error.h"
#include "ffmpeg/ffmpeg_frame.h"
#include "ffmpeg/ffmpeg_log.h"
#include "ffmpeg/repack.h"
#include "ffmpeg/sws_colors.h"

namespace spdl {
namespace {

AVPixelFormat converted_format(Channels channels) {
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

// Makes `kept` a frame of that size and format, unless it is one already.
void fit(FramePtr& kept, const AVFrame& frame, AVPixelFormat format) {
    if (kept && kept->width == frame.width && kept->height == frame.height && kept->format == format) {
        return;
    }
    kept = make_frame();
    kept->format = format;
    kept->width = frame.width;
    kept->height = frame.height;
    if (av_frame_get_buffer(kept.get(), 0) < 0) {
        throw std::bad_alloc();
    }
}

}  // namespace

void PixelConverter::prepare(const AVFrame& frame, AVPixelFormat to) {
    // Exact rounding and full chroma: half-resolution shortcuts show in photos.
    constexpr int kFlags = SWS_BICUBIC | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT | SWS_FULL_CHR_H_INP;
    context_.reset(sws_getCachedContext(context_.release(), frame.width, frame.height,
                                        static_cast<AVPixelFormat>(frame.format), frame.width, frame.height, to, kFlags,
                                        nullptr, nullptr, nullptr));
    if (!context_) {
        throw MediaError(std::string("cannot convert the pixel format \"") + ffmpeg_format_name(frame.format) +
                         "\" to " + ffmpeg_format_name(to));
    }
    follow_colors(*context_, frame);
}

const AVFrame& PixelConverter::narrow(const AVFrame& frame) {
    const AVPixelFormat format = narrow_format(static_cast<AVPixelFormat>(frame.format));
    if (format == AV_PIX_FMT_NONE) {
        return frame;
    }
    fit(narrowed_, frame, format);
    narrowed_->color_range = frame.color_range;
    repack(frame, *narrowed_);
    return *narrowed_;
}

void PixelConverter::convert(const AVFrame& stored, const Box& box, Channels channels, RowSink& sink) {
    const FfmpegLog log;
    const AVFrame& frame = narrow(stored);
    const AVFrame* source = &frame;
    const AVPixelFormat format = converted_format(channels);
    if (frame.format != format) {
        prepare(frame, format);
        fit(converted_, frame, format);
        log.check(sws_scale(context_.get(), frame.data, frame.linesize, 0, frame.height, converted_->data,
                            converted_->linesize),
                  "cannot convert the image's pixel format");
        source = converted_.get();
    }
    const auto width = static_cast<std::size_t>(box.size().width);
    for (int y = 0; y < box.size().height; ++y) {
        const std::uint8_t* const row =
            source->data[0] + static_cast<std::ptrdiff_t>(box.top + y) * source->linesize[0];
        std::uint8_t* const to = sink.row(y);
        if (channels == Channels::kGray) {
            for (std::size_t x = 0; x < width; ++x) {
                std::fill_n(to + 3 * x, 3, row[static_cast<std::size_t>(box.left) + x]);
            }
        } else {
            std::memcpy(to, row + 3 * static_cast<std::ptrdiff_t>(box.left), 3 * width);
        }
        sink.commit(y, 1);
    }
    if (rgb_bytes({frame.width, frame.height}) > kKeptBytes) {
        converted_.reset();
        narrowed_.reset();
    }
}

}  // namespace spdl
