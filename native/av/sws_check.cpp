#include "av/sws_check.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

#include "av/scaling_context.h"
#include "ffmpeg/ffmpeg_frame.h"

namespace spdl {
namespace {

int half(int size) {
    return (size + 1) / 2;
}

FramePtr make_picture(AVPixelFormat format, Size size) {
    FramePtr frame = make_frame();
    frame->format = format;
    frame->width = size.width;
    frame->height = size.height;
    if (av_frame_get_buffer(frame.get(), 0) < 0) {
        throw std::bad_alloc();
    }
    return frame;
}

// Half of it noise, half of it black or white: filters with negative weights then leave the range of bytes.
FramePtr make_noise(const SwsScaler::Form& form) {
    FramePtr frame = make_picture(form.format, form.from);
    frame->colorspace = form.matrix;
    frame->color_range = form.range;
    std::uint32_t state = 1;
    const auto next = [&state] {
        state = state * 1664525U + 1013904223U;
        return state >> 16;
    };
    for (int plane = 0; plane < 3; ++plane) {
        const int width = plane == 0 ? form.from.width : half(form.from.width);
        const int height = plane == 0 ? form.from.height : half(form.from.height);
        for (int y = 0; y < height; ++y) {
            std::uint8_t* const row = frame->data[plane] + static_cast<std::ptrdiff_t>(y) * frame->linesize[plane];
            for (int x = 0; x < width; ++x) {
                const std::uint32_t drawn = next();
                row[x] = static_cast<std::uint8_t>((drawn & 0x100U) != 0 ? drawn : (drawn & 1U) != 0 ? 255 : 0);
            }
        }
    }
    return frame;
}

bool same_rows(const AVFrame& a, const AVFrame& b, int plane, int bytes, int rows) {
    for (int y = 0; y < rows; ++y) {
        if (std::memcmp(a.data[plane] + static_cast<std::ptrdiff_t>(y) * a.linesize[plane],
                        b.data[plane] + static_cast<std::ptrdiff_t>(y) * b.linesize[plane],
                        static_cast<std::size_t>(bytes)) != 0) {
            return false;
        }
    }
    return true;
}

}  // namespace

bool scales_as_libswscale(const SwsScaler& scaler) {
    const SwsScaler::Form& form = scaler.form();
    const FramePtr noise = make_noise(form);
    const FramePtr expected = make_picture(form.to_format, form.to);
    const FramePtr found = make_picture(form.to_format, form.to);
    const SwsContextPtr context = make_scaling_context(*noise, form.to, form.to_format, form.interpolation);
    if (!context || sws_scale(context.get(), noise->data, noise->linesize, 0, form.from.height, expected->data,
                              expected->linesize) != form.to.height) {
        return false;
    }
    SwsScaler::Scratch scratch;
    scaler.scale(*noise, whole(form.to), *found, 0, 0, scratch);
    if (form.to_format == AV_PIX_FMT_RGB24) {
        return same_rows(*found, *expected, 0, form.to.width * 3, form.to.height);
    }
    const Size chroma{half(form.to.width), half(form.to.height)};
    return same_rows(*found, *expected, 0, form.to.width, form.to.height) &&
           same_rows(*found, *expected, 1, chroma.width, chroma.height) &&
           same_rows(*found, *expected, 2, chroma.width, chroma.height);
}

}  // namespace spdl
