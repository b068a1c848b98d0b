#include "ffmpeg/frame_layout.h"

#include <cstring>
#include <string>

#include "core/media_error.h"

namespace spdl {
namespace {

[[noreturn]] void refuse(const AVPixFmtDescriptor* format, const char* why) {
    throw MediaError(std::string("frames of the pixel format \"") + (format == nullptr ? "unknown" : format->name) +
                     "\" do not make an array: " + why +
                     "; convert them with a filter description such as \"format=pix_fmts=rgb24\"");
}

ElementType element_type(const AVPixFmtDescriptor* format) {
    const int depth = format->comp[0].depth;
    if ((format->flags & AV_PIX_FMT_FLAG_FLOAT) != 0 && depth == 32) {
        return ElementType::kFloat32;
    }
    for (int i = 0; i < format->nb_components; ++i) {
        if (format->comp[i].depth != depth) {
            refuse(format, "its samples have different depths");
        }
    }
    if (depth == 8) {
        return ElementType::kUint8;
    }
    if (depth > 8 && depth <= 16 && (format->flags & AV_PIX_FMT_FLAG_FLOAT) == 0) {
        return ElementType::kUint16;
    }
    refuse(format, "its samples have no 8, 16 or 32 bits");
}

std::size_t halve(int side, int times) {
    return static_cast<std::size_t>(AV_CEIL_RSHIFT(side, times));
}

}  // namespace

std::size_t FrameLayout::bytes() const {
    std::size_t total = 0;
    for (const Plane& plane : planes) {
        total += plane.row_bytes * static_cast<std::size_t>(plane.rows);
    }
    return total;
}

FrameLayout frame_layout(const AVFrame& frame) {
    const AVPixFmtDescriptor* const format = av_pix_fmt_desc_get(static_cast<AVPixelFormat>(frame.format));
    constexpr unsigned kNoArray = AV_PIX_FMT_FLAG_PAL | AV_PIX_FMT_FLAG_BITSTREAM | AV_PIX_FMT_FLAG_HWACCEL;
    if (format == nullptr || (format->flags & kNoArray) != 0) {
        refuse(format, "its values are indices, bits or handles");
    }
    FrameLayout layout;
    layout.type = element_type(format);
    const std::size_t element = element_bytes(layout.type);
    layout.swap_bytes = element > 1 && (format->flags & AV_PIX_FMT_FLAG_BE) != 0;
    const auto width = static_cast<std::size_t>(frame.width);
    const auto height = static_cast<std::size_t>(frame.height);
    const int planes = av_pix_fmt_count_planes(static_cast<AVPixelFormat>(frame.format));
    const bool subsampled = format->log2_chroma_w != 0 || format->log2_chroma_h != 0;

    if (planes == 1) {
        const auto step = static_cast<std::size_t>(format->comp[0].step);
        if (subsampled || step % element != 0 || step / element < format->nb_components) {
            refuse(format, "its pixels share samples");
        }
        layout.shape = {height, width, step / element};
        layout.planes = {{width * step, frame.height}};
        return layout;
    }
    for (int plane = 0; plane < planes; ++plane) {
        layout.planes.push_back({width * element, frame.height});
    }
    if (!subsampled) {
        layout.shape = {static_cast<std::size_t>(planes), height, width};
        return layout;
    }
    const std::size_t chroma_width = halve(frame.width, format->log2_chroma_w);
    const int chroma_height = static_cast<int>(halve(frame.height, format->log2_chroma_h));
    for (int plane = 1; plane < std::min(planes, 3); ++plane) {
        // With two planes, the two chroma samples of a pixel lie side by side.
        layout.planes[static_cast<std::size_t>(plane)] = {chroma_width * element * (planes == 2 ? 2 : 1),
                                                          chroma_height};
    }
    const std::size_t row = width * element;
    if (layout.bytes() % row != 0 || chroma_width << format->log2_chroma_w != width ||
        static_cast<std::size_t>(chroma_height) << format->log2_chroma_h != height) {
        refuse(format, "the image's sides are no multiples of its chroma subsampling");
    }
    layout.shape = {1, layout.bytes() / row, width};
    return layout;
}

void copy_frame(const AVFrame& frame, const FrameLayout& layout, std::uint8_t* to) {
    for (std::size_t plane = 0; plane < layout.planes.size(); ++plane) {
        const auto [row_bytes, rows] = layout.planes[plane];
        for (int y = 0; y < rows; ++y) {
            const std::uint8_t* const from = frame.data[plane] + static_cast<std::ptrdiff_t>(y) * frame.linesize[plane];
            if (layout.swap_bytes) {
                const std::size_t element = element_bytes(layout.type);
                for (std::size_t i = 0; i < row_bytes; ++i) {
                    to[i] = from[i - i % element + (element - 1 - i % element)];
                }
            } else {
                std::memcpy(to, from, row_bytes);
            }
            to += row_bytes;
        }
    }
}

bool is_array(AVFrame& frame, const FrameLayout& layout) {
    return layout.planes.size() == 1 && !layout.swap_bytes &&
           frame.linesize[0] == static_cast<int>(layout.planes[0].row_bytes) && av_frame_is_writable(&frame) != 0;
}

}  // namespace spdl
