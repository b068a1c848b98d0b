#include "av/frame_arrays.h"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "core/media_error.h"
#include "ffmpeg/ffmpeg_frame.h"
#include "ffmpeg/frame_layout.h"

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
    return std::to_string(frame.width) + "x" + std::to_string(frame.height) + " " + ffmpeg_format_name(frame.format);
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

Buffer make_buffer(std::vector<std::size_t> shape, ElementType type, const Memory* memory) {
    return memory == nullptr ? allocate(std::move(shape), type) : allocate_in(*memory, std::move(shape), type);
}

}  // namespace

Buffer to_array(const FrameList& list, const Memory* memory) {
    const Form form = form_of(list);
    Buffer buffer = make_buffer(form.shape, form.type, memory);
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
    Buffer buffer = make_buffer(std::move(shape), first.type, memory);
    for (std::size_t i = 0; i < lists.size(); ++i) {
        copy_frames(lists[i], first, buffer.data + i * first.bytes());
    }
    return buffer;
}

}  // namespace spdl
