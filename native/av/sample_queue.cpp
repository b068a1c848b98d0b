#include "av/sample_queue.h"

#include <algorithm>
#include <new>
#include <utility>

namespace spdl {

void SampleQueue::add(FramePtr frame) {
    size_ += frame->nb_samples;
    frames_.push_back(std::move(frame));
}

FramePtr SampleQueue::take(int count) {
    const AVFrame& first = *frames_.front();
    FramePtr taken = make_frame();
    taken->format = first.format;
    taken->sample_rate = first.sample_rate;
    taken->nb_samples = count;
    taken->pts = first.pts + used_;
    if (av_channel_layout_copy(&taken->ch_layout, &first.ch_layout) < 0 || av_frame_get_buffer(taken.get(), 0) < 0) {
        throw std::bad_alloc();
    }
    const auto format = static_cast<AVSampleFormat>(first.format);
    for (int filled = 0; filled < count;) {
        const AVFrame& frame = *frames_.front();
        const int part = std::min(count - filled, frame.nb_samples - used_);
        av_samples_copy(taken->extended_data, frame.extended_data, filled, used_, part, taken->ch_layout.nb_channels,
                        format);
        filled += part;
        used_ += part;
        if (used_ == frame.nb_samples) {
            frames_.pop_front();
            used_ = 0;
        }
    }
    size_ -= count;
    return taken;
}

}  // namespace spdl
