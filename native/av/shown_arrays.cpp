#include "av/shown_arrays.h"

#include <new>
#include <utility>

#include "core/limits.h"
#include "core/media_error.h"
#include "ffmpeg/borrowed_frame.h"
#include "ffmpeg/shown_pixels.h"
#include "ffmpeg/times.h"

namespace spdl {

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

}  // namespace spdl
