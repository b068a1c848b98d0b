#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "core/errors.h"
#include "core/geometry.h"
#include "ffmpeg/ffmpeg_log.h"
#include "ffmpeg/frames.h"

namespace spdl {
namespace {

template <typename Enumeration>
void forget_unknown(Enumeration& value, Enumeration count, Enumeration unspecified) {
    int number = 0;
    static_assert(sizeof(number) == sizeof(value));
    std::memcpy(&number, &value, sizeof(number));
    if (number < 0 || number >= static_cast<int>(count)) {
        value = unspecified;
    }
}

}  // namespace

void forget_unknown_colors(AVFrame& frame) {
    forget_unknown(frame.colorspace, AVCOL_SPC_NB, AVCOL_SPC_UNSPECIFIED);
    forget_unknown(frame.color_range, AVCOL_RANGE_NB, AVCOL_RANGE_UNSPECIFIED);
    forget_unknown(frame.color_primaries, AVCOL_PRI_NB, AVCOL_PRI_UNSPECIFIED);
    forget_unknown(frame.color_trc, AVCOL_TRC_NB, AVCOL_TRC_UNSPECIFIED);
}

FrameColors frame_colors(const AVFrame& frame) {
    const int matrix = frame.colorspace == AVCOL_SPC_UNSPECIFIED || frame.colorspace == AVCOL_SPC_RGB
                           ? SWS_CS_DEFAULT
                           : static_cast<int>(frame.colorspace);
    const bool by_format = std::string_view(ffmpeg_format_name(frame.format)).starts_with("yuvj");
    // Gray without a stated range has all levels.
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

namespace {

bool has_alpha(const AVPixFmtDescriptor& format) {
    return (format.flags & AV_PIX_FMT_FLAG_ALPHA) != 0;
}

bool big_endian(const AVPixFmtDescriptor& format) {
    return (format.flags & AV_PIX_FMT_FLAG_BE) != 0;
}

int color_channels(const AVPixFmtDescriptor& format) {
    return format.nb_components - (has_alpha(format) ? 1 : 0);
}

// Returns whether samples are whole, of one depth and not shared: red, green and blue, or gray.
bool is_plain(const AVPixFmtDescriptor& format) {
    constexpr unsigned kNoSamples = AV_PIX_FMT_FLAG_PAL | AV_PIX_FMT_FLAG_BITSTREAM | AV_PIX_FMT_FLAG_HWACCEL |
                                    AV_PIX_FMT_FLAG_FLOAT | AV_PIX_FMT_FLAG_BAYER;
    const int depth = format.comp[0].depth;
    const bool rgb = (format.flags & AV_PIX_FMT_FLAG_RGB) != 0 && color_channels(format) == 3;
    return (format.flags & kNoSamples) == 0 && (rgb || color_channels(format) == 1) && (depth == 8 || depth == 16) &&
           std::all_of(format.comp, format.comp + format.nb_components,
                       [=](const AVComponentDescriptor& channel) { return channel.depth == depth; });
}

// The place of the samples of one channel.
struct Samples {
    std::uint8_t* first;
    std::ptrdiff_t row;
    std::ptrdiff_t step;

    Samples(const AVFrame& frame, const AVComponentDescriptor& channel)
        : first(frame.data[channel.plane] + channel.offset), row(frame.linesize[channel.plane]), step(channel.step) {}

    [[nodiscard]] std::uint8_t* at(int x, int y) const { return first + y * row + x * step; }
};

}  // namespace

bool repacks(AVPixelFormat from, AVPixelFormat to) {
    const AVPixFmtDescriptor* const source = av_pix_fmt_desc_get(from);
    const AVPixFmtDescriptor* const target = av_pix_fmt_desc_get(to);
    return source != nullptr && target != nullptr && is_plain(*source) && is_plain(*target) &&
           source->comp[0].depth == target->comp[0].depth && color_channels(*source) <= color_channels(*target) &&
           (has_alpha(*target) || !has_alpha(*source));
}

AVPixelFormat narrow_format(AVPixelFormat format) {
    const AVPixFmtDescriptor* const source = av_pix_fmt_desc_get(format);
    if (source == nullptr || !is_plain(*source) || source->comp[0].depth != 16) {
        return AV_PIX_FMT_NONE;
    }
    if (color_channels(*source) == 1) {
        return has_alpha(*source) ? AV_PIX_FMT_YA8 : AV_PIX_FMT_GRAY8;
    }
    return has_alpha(*source) ? AV_PIX_FMT_RGBA : AV_PIX_FMT_RGB24;
}

void repack(const AVFrame& from, AVFrame& to) {
    if (from.format == to.format) {
        av_image_copy(to.data, to.linesize, const_cast<const std::uint8_t**>(from.data), from.linesize,
                      static_cast<AVPixelFormat>(from.format), from.width, from.height);
        return;
    }
    const AVPixFmtDescriptor& source = *av_pix_fmt_desc_get(static_cast<AVPixelFormat>(from.format));
    const AVPixFmtDescriptor& target = *av_pix_fmt_desc_get(static_cast<AVPixelFormat>(to.format));
    const std::size_t bytes = target.comp[0].depth == 16 ? 2 : 1;
    const bool swapped = bytes == 2 && big_endian(source) != big_endian(target);
    // The byte of a sample that is first in the target.
    const std::size_t first = swapped || (bytes == 1 && source.comp[0].depth == 16 && !big_endian(source)) ? 1 : 0;
    const int colors = color_channels(target);
    for (int channel = 0; channel < target.nb_components; ++channel) {
        const Samples written(to, target.comp[channel]);
        if (channel >= colors && !has_alpha(source)) {
            for (int y = 0; y < to.height; ++y) {
                for (int x = 0; x < to.width; ++x) {
                    std::fill_n(written.at(x, y), bytes, std::uint8_t{0xff});
                }
            }
            continue;
        }
        const int alike = channel >= colors ? color_channels(source) : std::min(channel, color_channels(source) - 1);
        const Samples read(from, source.comp[alike]);
        for (int y = 0; y < to.height; ++y) {
            for (int x = 0; x < to.width; ++x) {
                const std::uint8_t* const sample = read.at(x, y);
                std::uint8_t* const place = written.at(x, y);
                place[0] = sample[first];
                if (bytes == 2) {
                    place[1] = sample[1 - first];
                }
            }
        }
    }
}

namespace {

// Makes `kept` a frame of that size and format, unless it is one already.
void fit(FramePtr& kept, const AVFrame& frame, AVPixelFormat format) {
    if (kept && kept->width == frame.width && kept->height == frame.height && kept->format == format) {
        return;
    }
    kept = make_frame();
    kept->format = format;
    kept->width = frame.width;
    kept->height = frame.height;
    require_memory(av_frame_get_buffer(kept.get(), 0) >= 0);
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
    const AVPixelFormat format = packed_format(channels);
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
