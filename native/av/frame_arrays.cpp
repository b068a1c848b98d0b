#include "av/frame_arrays.h"

#include <cmath>
#include <cstring>
#include <new>
#include <vector>

#include "core/errors.h"
#include "ffmpeg/frames.h"

namespace spdl {
namespace {

// The form of an array of frames, without its memory.
struct Form {
    std::vector<std::size_t> shape;
    ElementType type = ElementType::kUint8;

    [[nodiscard]] std::size_t bytes() const {
        std::size_t size = element_bytes(type);
        for (const std::size_t side : shape) {
            size *= side;
        }
        return size;
    }
};

ElementType element_type(AVSampleFormat format) {
    switch (av_get_packed_sample_fmt(format)) {
        case AV_SAMPLE_FMT_U8:
            return ElementType::kUint8;
        case AV_SAMPLE_FMT_S16:
            return ElementType::kInt16;
        case AV_SAMPLE_FMT_S32:
            return ElementType::kInt32;
        case AV_SAMPLE_FMT_S64:
            return ElementType::kInt64;
        case AV_SAMPLE_FMT_FLT:
            return ElementType::kFloat32;
        case AV_SAMPLE_FMT_DBL:
            return ElementType::kFloat64;
        default:
            throw MediaError("the sound has no sample format that makes an array");
    }
}

std::string describe(const AVFrame& frame) {
    if (frame.sample_rate > 0) {
        const char* const name = av_get_sample_fmt_name(static_cast<AVSampleFormat>(frame.format));
        return std::to_string(frame.ch_layout.nb_channels) + " channels of " + (name == nullptr ? "unknown" : name) +
               " at " + std::to_string(frame.sample_rate) + " Hz";
    }
    return describe_picture(frame.width, frame.height, frame.format);
}

bool alike(const AVFrame& a, const AVFrame& b) {
    return a.width == b.width && a.height == b.height && a.format == b.format && a.sample_rate == b.sample_rate &&
           a.ch_layout.nb_channels == b.ch_layout.nb_channels;
}

void check_alike(const std::vector<FramePtr>& frames) {
    for (const FramePtr& frame : frames) {
        if (!alike(*frame, *frames.front())) {
            throw MediaError("frames of one array must have one form: the first is " + describe(*frames.front()) +
                             ", but a later one is " + describe(*frame) +
                             "; bring them into one form with a filter description, such as get_video_filter_desc and "
                             "get_audio_filter_desc write it");
        }
    }
}

// Returns a frame of the list's form.
const AVFrame& first_of(const FrameList& list) {
    if (!list.frames.empty()) {
        return *list.frames.front();
    }
    if (!list.form) {
        throw MediaError("there are no frames to make an array of: the window may lie outside of the stream");
    }
    return *list.form;
}

Form form_of(const FrameList& list) {
    const AVFrame& first = first_of(list);
    check_alike(list.frames);
    if (list.medium == Medium::kVideo) {
        FrameLayout layout = frame_layout(first);
        layout.shape.insert(layout.shape.begin(), list.frames.size());
        return {std::move(layout.shape), layout.type};
    }
    std::size_t samples = 0;
    for (const FramePtr& frame : list.frames) {
        samples += static_cast<std::size_t>(frame->nb_samples);
    }
    const auto channels = static_cast<std::size_t>(first.ch_layout.nb_channels);
    const auto format = static_cast<AVSampleFormat>(first.format);
    const bool planar = av_sample_fmt_is_planar(format) != 0;
    return {planar ? std::vector{channels, samples} : std::vector{samples, channels}, element_type(format)};
}

void copy_samples(const FrameList& list, const Form& form, std::uint8_t* to) {
    const bool planar = av_sample_fmt_is_planar(static_cast<AVSampleFormat>(first_of(list).format)) != 0;
    const std::size_t planes = planar ? form.shape[0] : 1;
    const std::size_t step = element_bytes(form.type) * (planar ? 1 : form.shape[1]);
    for (std::size_t plane = 0; plane < planes; ++plane) {
        for (const FramePtr& frame : list.frames) {
            const std::size_t bytes = static_cast<std::size_t>(frame->nb_samples) * step;
            std::memcpy(to, frame->extended_data[plane], bytes);
            to += bytes;
        }
    }
}

void copy_frames(const FrameList& list, const Form& form, std::uint8_t* to) {
    if (list.medium == Medium::kAudio) {
        copy_samples(list, form, to);
        return;
    }
    const FrameLayout layout = frame_layout(*list.frames.front());
    for (const FramePtr& frame : list.frames) {
        copy_frame(*frame, layout, to);
        to += layout.bytes();
    }
}

std::string size_text(Size size) {
    return std::to_string(size.width) + "x" + std::to_string(size.height);
}

bool has_planes_of_bytes(const AVPixFmtDescriptor& format) {
    constexpr std::uint64_t kOthers = AV_PIX_FMT_FLAG_RGB | AV_PIX_FMT_FLAG_ALPHA | AV_PIX_FMT_FLAG_PAL |
                                      AV_PIX_FMT_FLAG_BITSTREAM | AV_PIX_FMT_FLAG_HWACCEL | AV_PIX_FMT_FLAG_FLOAT |
                                      AV_PIX_FMT_FLAG_BAYER;
    if ((format.flags & kOthers) != 0 || (format.nb_components != 1 && format.nb_components != kPlanes)) {
        return false;
    }
    for (int i = 0; i < format.nb_components; ++i) {
        const AVComponentDescriptor& component = format.comp[i];
        if (component.plane != i || component.step != 1 || component.offset != 0 || component.shift != 0 ||
            component.depth != 8) {
            return false;
        }
    }
    return true;
}

// Returns the conversion to full range that FFmpeg does with these factors, which have 16 bits of fraction and are for
// planes of limited range: 219 levels of luma, 224 of chroma.
YuvColors yuv_colors(const FrameColors& colors) {
    const double chroma = colors.full_range ? 224.0 / 255.0 : 1.0;
    const auto fixed = [](double factor) {
        return static_cast<std::int16_t>(std::lround(factor * (1 << YuvColors::kBits)));
    };
    const auto factor = [&](int i) { return colors.matrix[i] / 65536.0 * chroma; };
    return {
        .black = static_cast<FineLevel>(colors.full_range ? 0 : 16 << kFineBits),
        .luma = fixed(colors.full_range ? 1.0 : 255.0 / 219.0),
        .red_from_cr_less_1 = fixed(factor(0) - 1),
        .green_from_cb = fixed(factor(2)),
        .green_from_cr = fixed(factor(3)),
        .blue_from_cb_less_1 = fixed(factor(1) - 1),
    };
}

}  // namespace

Buffer to_array(const FrameList& list, const Memory* memory) {
    const Form form = form_of(list);
    Buffer buffer = allocate_in(memory, form.shape, form.type);
    copy_frames(list, form, buffer.data);
    return buffer;
}

Buffer to_array(std::span<const FrameList> lists, const Memory* memory) {
    const Form first = form_of(lists.front());
    for (std::size_t i = 1; i < lists.size(); ++i) {
        if (const Form form = form_of(lists[i]);
            form.shape != first.shape || !alike(first_of(lists[i]), first_of(lists.front()))) {
            throw MediaError("items of one batch must have one form: the first has " +
                             std::to_string(lists.front().frames.size()) + " frames of " +
                             describe(first_of(lists.front())) + ", but that at index " + std::to_string(i) + " has " +
                             std::to_string(lists[i].frames.size()) + " of " + describe(first_of(lists[i])) +
                             "; give all the same length with num_frames in the filter description");
        }
    }
    std::vector<std::size_t> shape = first.shape;
    shape.insert(shape.begin(), lists.size());
    Buffer buffer = allocate_in(memory, std::move(shape), first.type);
    for (std::size_t i = 0; i < lists.size(); ++i) {
        copy_frames(lists[i], first, buffer.data + i * first.bytes());
    }
    return buffer;
}

FrameList show_pictures(std::shared_ptr<const void> owner, Bytes array, const std::string& pixel_format, int width,
                        int height, int count, AVRational frame_rate, std::int64_t time) {
    check_size({width, height}, "the size of a picture");
    const AVPixelFormat format = find_pixel_format(pixel_format);
    const int bytes = av_image_get_buffer_size(format, width, height, /*align=*/1);
    if (bytes <= 0 || array.size() % static_cast<std::size_t>(bytes) != 0 ||
        array.size() / static_cast<std::size_t>(bytes) != static_cast<std::size_t>(count)) {
        throw MediaError("an array of " + std::to_string(array.size()) + " bytes is not that of " +
                         std::to_string(count) + " pictures of " + std::to_string(width) + "x" +
                         std::to_string(height) + " " + pixel_format);
    }
    check_time(time, "the time of the first picture");
    FrameList list{Medium::kVideo, {}, av_inv_q(frame_rate)};
    for (int i = 0; i < count; ++i) {
        FramePtr frame = make_frame();
        frame->format = format;
        frame->width = width;
        frame->height = height;
        frame->pts = time + i;
        const Bytes pixels = array.subspan(static_cast<std::size_t>(i) * static_cast<std::size_t>(bytes),
                                           static_cast<std::size_t>(bytes));
        av_image_fill_arrays(frame->data, frame->linesize, pixels.data(), format, width, height, /*align=*/1);
        frame->extended_data = frame->data;
        borrow(*frame, owner, pixels);
        list.frames.push_back(std::move(frame));
    }
    return list;
}

FrameList show_sound(std::shared_ptr<const void> owner, Bytes array, const std::string& sample_format, int channels,
                     int samples, int sample_rate, std::int64_t time) {
    const AVSampleFormat format = av_get_sample_fmt(sample_format.c_str());
    const int sample = format == AV_SAMPLE_FMT_NONE ? 0 : av_get_bytes_per_sample(format);
    if (sample == 0 || channels < 1 || samples < 1 ||
        array.size() !=
            static_cast<std::size_t>(channels) * static_cast<std::size_t>(samples) * static_cast<std::size_t>(sample)) {
        throw MediaError("an array of " + std::to_string(array.size()) + " bytes is not that of " +
                         std::to_string(samples) + " samples of " + std::to_string(channels) + " channels of " +
                         sample_format);
    }
    check_time(time, "the time of the first sample");
    FramePtr frame = make_frame();
    frame->format = format;
    frame->nb_samples = samples;
    frame->sample_rate = sample_rate;
    frame->pts = time;
    av_channel_layout_default(&frame->ch_layout, channels);
    if (channels > AV_NUM_DATA_POINTERS && av_sample_fmt_is_planar(format) != 0) {
        frame->extended_data =
            static_cast<std::uint8_t**>(av_calloc(static_cast<std::size_t>(channels), sizeof(*frame->extended_data)));
        if (frame->extended_data == nullptr) {
            frame->extended_data = frame->data;
            throw std::bad_alloc();
        }
    } else {
        frame->extended_data = frame->data;
    }
    if (av_samples_fill_arrays(frame->extended_data, frame->linesize, array.data(), channels, samples, format,
                               /*align=*/1) < 0) {
        throw MediaError("the sound is too long for one frame");
    }
    for (int i = 0; frame->extended_data != frame->data && i < AV_NUM_DATA_POINTERS; ++i) {
        frame->data[i] = frame->extended_data[i];
    }
    borrow(*frame, std::move(owner), array);
    FrameList list{Medium::kAudio, {}, {1, sample_rate}};
    list.frames.push_back(std::move(frame));
    return list;
}

void throw_size_change(Size from, Size to) {
    throw MediaError("the pictures change their size in mid-stream, from " + size_text(from) + " to " + size_text(to) +
                     ": give the width and the height that all are to have");
}

PictureArray::PictureArray(const LoadOptions& options, int rotation, std::size_t count, const Memory* memory)
    : options_(options), writer_(options, rotation), count_(count), memory_(memory) {}

void PictureArray::write(const AVFrame& frame, std::size_t row) {
    const Size canvas = writer_.open(frame);
    if (!array_.owner) {
        canvas_ = canvas;
        row_bytes_ = options_.format.image_bytes(canvas);
        std::vector<std::size_t> sides = options_.format.shape(count_, canvas);
        array_ = allocate_in(memory_, std::move(sides), options_.format.type());
    }
    if (canvas != canvas_) {
        throw_size_change(canvas_, canvas);
    }
    writer_.write(array_.data + row * row_bytes_);
}

void PictureArray::copy(std::size_t from, std::size_t to) {
    std::memcpy(array_.data + to * row_bytes_, array_.data + from * row_bytes_, row_bytes_);
}

std::optional<YuvImage> yuv_planes(const AVFrame& frame) {
    const AVPixFmtDescriptor* const format = av_pix_fmt_desc_get(static_cast<AVPixelFormat>(frame.format));
    if (format == nullptr || !has_planes_of_bytes(*format)) {
        return std::nullopt;
    }
    YuvImage image;
    image.size = {frame.width, frame.height};
    for (std::size_t plane = 0; plane < format->nb_components; ++plane) {
        image.planes[plane] = {frame.data[plane], frame.linesize[plane]};
    }
    image.chroma_shift_x = format->log2_chroma_w;
    image.chroma_shift_y = format->log2_chroma_h;
    image.colors = yuv_colors(frame_colors(frame));
    return image;
}

}  // namespace spdl
