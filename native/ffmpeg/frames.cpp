#include "ffmpeg/frames.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>
#include <utility>

#include "core/errors.h"

namespace spdl {
namespace {

// Its address marks the frames.
char mark;

using Owner = std::shared_ptr<const void>;

}  // namespace

void borrow(AVFrame& frame, Owner owner, Bytes memory) {
    auto kept = std::make_unique<Owner>(std::move(owner));
    frame.buf[0] = av_buffer_create(
        const_cast<std::uint8_t*>(memory.data()), memory.size(),
        [](void* opaque, std::uint8_t* /*data*/) { delete static_cast<Owner*>(opaque); }, kept.get(),
        AV_BUFFER_FLAG_READONLY);
    require_memory(frame.buf[0] != nullptr);
    static_cast<void>(kept.release());
    frame.opaque = &mark;
}

bool is_borrowed(const AVFrame& frame) {
    return frame.opaque == &mark;
}

FramePtr copy_frame(const AVFrame& frame) {
    FramePtr copy = make_frame();
    copy->format = frame.format;
    copy->width = frame.width;
    copy->height = frame.height;
    copy->nb_samples = frame.nb_samples;
    copy->sample_rate = frame.sample_rate;
    require_memory(av_channel_layout_copy(&copy->ch_layout, &frame.ch_layout) >= 0 &&
                   av_frame_get_buffer(copy.get(), 0) >= 0 && av_frame_copy(copy.get(), &frame) >= 0 &&
                   av_frame_copy_props(copy.get(), &frame) >= 0);
    copy->opaque = nullptr;
    return copy;
}

namespace {

// For vectors, which also read and write a little beyond the end of a row or a plane.
constexpr int kAlignment = 64;

void free_block(void* size, std::uint8_t* block) {
    give_large_block(block, reinterpret_cast<std::uintptr_t>(size));
}

}  // namespace

void allocate_picture(AVFrame& frame) {
    const auto format = static_cast<AVPixelFormat>(frame.format);
    std::ptrdiff_t strides[4] = {};
    std::size_t sizes[4] = {};
    bool fits = av_image_fill_linesizes(frame.linesize, format, frame.width) >= 0;
    for (std::size_t plane = 0; plane < std::size(strides); ++plane) {
        frame.linesize[plane] = FFALIGN(frame.linesize[plane], kAlignment);
        strides[plane] = frame.linesize[plane];
    }
    fits = fits && av_image_fill_plane_sizes(sizes, format, frame.height, strides) >= 0;
    std::size_t size = 0;
    for (const std::size_t plane : sizes) {
        size += plane + kAlignment;
    }
    if (!fits || size < kSmallestBlock) {
        require_memory(av_frame_get_buffer(&frame, 0) >= 0);
        return;
    }
    auto* const block = static_cast<std::uint8_t*>(take_large_block(size));
    frame.buf[0] = av_buffer_create(block, size, free_block, reinterpret_cast<void*>(size), 0);
    if (frame.buf[0] == nullptr) {
        give_large_block(block, size);
        throw std::bad_alloc();
    }
    std::uint8_t* at = block;
    for (std::size_t plane = 0; plane < std::size(sizes) && sizes[plane] > 0; ++plane) {
        frame.data[plane] = at;
        at += sizes[plane] + kAlignment;
    }
    frame.extended_data = frame.data;
}

std::string channel_layout_text(const AVChannelLayout& layout) {
    // libav says how much room the text needs, some releases without the zero that ends it.
    std::string text(64, '\0');
    int needed = av_channel_layout_describe(&layout, text.data(), text.size());
    if (needed >= static_cast<int>(text.size())) {
        text.resize(static_cast<std::size_t>(needed) + 1);
        needed = av_channel_layout_describe(&layout, text.data(), text.size());
    }
    if (needed < 0) {
        return "";
    }
    text.resize(std::min(text.find('\0'), text.size()));
    return text;
}

AVPixelFormat find_pixel_format(const std::string& name) {
    const AVPixelFormat format = av_get_pix_fmt(name.c_str());
    if (format == AV_PIX_FMT_NONE) {
        throw MediaError("FFmpeg has no pixel format \"" + name + "\"");
    }
    return format;
}

FramePtr show_pixels(Bytes pixels, AVPixelFormat format, Size size) {
    check_size(size, "a picture's size");
    FramePtr frame = make_frame();
    frame->format = format;
    frame->width = size.width;
    frame->height = size.height;
    frame->pts = 0;
    const int bytes = av_image_fill_arrays(frame->data, frame->linesize, pixels.data(), format, size.width, size.height,
                                           /*align=*/1);
    if (bytes < 0 || static_cast<std::size_t>(bytes) != pixels.size()) {
        throw MediaError("a picture of " + std::to_string(size.width) + "x" + std::to_string(size.height) +
                         " pixels in this format is not of " + std::to_string(pixels.size()) + " bytes");
    }
    frame->extended_data = frame->data;
    // libav copies the frame before it writes to it. Nobody frees the pixels.
    frame->buf[0] = av_buffer_create(
        const_cast<std::uint8_t*>(pixels.data()), pixels.size(), [](void*, std::uint8_t*) {}, nullptr,
        AV_BUFFER_FLAG_READONLY);
    require_memory(frame->buf[0] != nullptr);
    return frame;
}

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
        refuse(format, "the image's sides are not multiples of its chroma subsampling");
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

namespace {

// True if the frame's memory already is the array of the layout, and is not shared.
bool is_array(AVFrame& frame, const FrameLayout& layout) {
    return layout.planes.size() == 1 && !layout.swap_bytes &&
           frame.linesize[0] == static_cast<int>(layout.planes[0].row_bytes) && av_frame_is_writable(&frame) != 0;
}

}  // namespace

FfmpegFrame::FfmpegFrame(FramePtr frame, AVRational time_base) : frame_(std::move(frame)), time_base_(time_base) {}

Picture FfmpegFrame::picture() const {
    Picture picture{{frame_->width, frame_->height}, ffmpeg_format_name(frame_->format)};
    std::copy_n(std::begin(frame_->data), picture.planes.size(), picture.planes.begin());
    std::copy_n(std::begin(frame_->linesize), picture.row_distances.size(), picture.row_distances.begin());
    return picture;
}

int FfmpegFrame::num_planes() const {
    return av_pix_fmt_count_planes(static_cast<AVPixelFormat>(frame_->format));
}

std::size_t FfmpegFrame::bytes() const {
    std::size_t size = 0;
    for (const AVBufferRef* const plane : frame_->buf) {
        size += plane == nullptr ? 0 : plane->size;
    }
    return size;
}

FrameProperties FfmpegFrame::properties() const {
    static_assert(FrameProperties::kNoTime == AV_NOPTS_VALUE);
    FrameProperties properties{frame_->pts, {time_base_.num, time_base_.den}, {}};
    const AVDictionaryEntry* entry = nullptr;
    while ((entry = av_dict_get(frame_->metadata, "", entry, AV_DICT_IGNORE_SUFFIX)) != nullptr) {
        properties.metadata.emplace_back(entry->key, entry->value);
    }
    return properties;
}

void FfmpegFrame::set_properties(const FrameProperties& properties) {
    frame_->pts = properties.time;
    time_base_ = {properties.time_base.numerator, properties.time_base.denominator};
    for (const auto& [key, value] : properties.metadata) {
        require_memory(av_dict_set(&frame_->metadata, key.c_str(), value.c_str(), 0) >= 0);
    }
}

std::unique_ptr<Frame> FfmpegFrame::clone() const {
    return std::make_unique<FfmpegFrame>(reference(*frame_), time_base_);
}

FfmpegFrame& as_ffmpeg(Frame& frame) {
    return dynamic_cast<FfmpegFrame&>(frame);
}

const FfmpegFrame& as_ffmpeg(const Frame& frame) {
    return dynamic_cast<const FfmpegFrame&>(frame);
}

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

const char* sample_format_name(int format) {
    const char* const name = av_get_sample_fmt_name(static_cast<AVSampleFormat>(format));
    return name == nullptr ? "unknown" : name;
}

std::string describe_picture(int width, int height, int format) {
    return dimensions({width, height}) + " " + ffmpeg_format_name(format);
}

std::string describe_sound(int channels, int rate, int format) {
    return std::to_string(channels) + " channels of " + sample_format_name(format) + " at " + std::to_string(rate) +
           " Hz";
}

const char* ffmpeg_format_name(int format) {
    const char* const name = av_get_pix_fmt_name(static_cast<AVPixelFormat>(format));
    return name == nullptr ? "unknown" : name;
}

namespace {

std::unique_ptr<Frame> frame_without_gaps(Size size, AVPixelFormat format, std::size_t row_bytes, std::size_t bytes) {
    FramePtr frame = make_frame();
    frame->format = format;
    frame->width = size.width;
    frame->height = size.height;
    frame->pts = 0;
    frame->color_range = AVCOL_RANGE_JPEG;
    frame->linesize[0] = static_cast<int>(row_bytes);
    // Not av_frame_get_buffer, which leaves gaps between rows. Filters may read a little beyond the last row.
    frame->buf[0] = av_buffer_alloc(bytes + AV_INPUT_BUFFER_PADDING_SIZE);
    require_memory(frame->buf[0] != nullptr);
    frame->data[0] = frame->buf[0]->data;
    frame->extended_data = frame->data;
    return std::make_unique<FfmpegFrame>(std::move(frame));
}

}  // namespace

std::unique_ptr<Frame> make_packed_frame(Size size, const ArrayFormat& format) {
    const std::size_t row_bytes = static_cast<std::size_t>(channel_count(format.channels()) * size.width);
    return frame_without_gaps(size, packed_format(format.channels()), row_bytes, format.image_bytes(size));
}

std::unique_ptr<Frame> make_stored_frame(Size size, const char* pixel_format) {
    const AVPixelFormat format = av_get_pix_fmt(pixel_format);
    const auto row_bytes = static_cast<std::size_t>(av_image_get_linesize(format, size.width, 0));
    return frame_without_gaps(size, format, row_bytes, row_bytes * static_cast<std::size_t>(size.height));
}

namespace {

std::string describe(const AVFrame& frame) {
    return describe_picture(frame.width, frame.height, frame.format);
}

}  // namespace

Buffer frame_to_array(std::unique_ptr<Frame> given, const Memory* memory) {
    FramePtr owner = as_ffmpeg(*given).take();
    AVFrame& frame = *owner;
    FrameLayout layout = frame_layout(frame);
    if (memory == nullptr && is_array(frame, layout)) {
        std::uint8_t* const data = frame.data[0];
        return {std::shared_ptr<AVFrame>(std::move(owner)), data, std::move(layout.shape), layout.type};
    }
    Buffer buffer = allocate_in(memory, layout.shape, layout.type);
    copy_frame(frame, layout, buffer.data);
    return buffer;
}

Buffer frames_to_array(std::span<const Frame* const> frames, const Memory* memory) {
    const AVFrame& first = as_ffmpeg(*frames.front()).get();
    for (std::size_t i = 1; i < frames.size(); ++i) {
        const AVFrame& frame = as_ffmpeg(*frames[i]).get();
        if (frame.width != first.width || frame.height != first.height || frame.format != first.format) {
            throw MediaError("frames of one batch must have one size and pixel format: the first is " +
                             describe(first) + ", but that at index " + std::to_string(i) + " is " + describe(frame) +
                             "; scale and convert them with the same filter description when they are decoded");
        }
    }
    const FrameLayout layout = frame_layout(first);
    std::vector<std::size_t> shape = layout.shape;
    shape.insert(shape.begin(), frames.size());
    Buffer buffer = allocate_in(memory, std::move(shape), layout.type);
    const std::size_t bytes = layout.bytes();
    for (std::size_t i = 0; i < frames.size(); ++i) {
        copy_frame(as_ffmpeg(*frames[i]).get(), layout, buffer.data + i * bytes);
    }
    return buffer;
}

}  // namespace spdl
