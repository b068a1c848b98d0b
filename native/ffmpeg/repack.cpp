#include "ffmpeg/repack.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace spdl {
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

// Where the samples of one channel lie.
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

}  // namespace spdl
