#include "av/clip_choice.h"

#include <algorithm>

namespace spdl {

bool may_reach_behind(const VideoIndex& index, const Stream& stream, const TimeWindow& window, const ClipChoice& choice,
                      std::size_t chosen) {
    if (window.end && is_after(index.shown_at(index.num_frames() - 1, stream), stream.time_base, window)) {
        return false;
    }
    return choice.spread || chosen < choice.num_frames;
}

std::vector<std::size_t> choose_frames(const VideoIndex& index, const Stream& stream, const TimeWindow& window,
                                       const ClipChoice& choice) {
    std::size_t first = 0;
    std::size_t last = index.num_frames();
    while (first < last && is_before(index.shown_at(first, stream), stream.time_base, window)) {
        ++first;
    }
    while (last > first && is_after(index.shown_at(last - 1, stream), stream.time_base, window)) {
        --last;
    }
    std::vector<std::size_t> frames;
    const std::size_t available = last - first;
    if (available == 0) {
        return frames;
    }
    if (choice.spread) {
        const std::size_t count = std::min(choice.num_frames, available);
        for (std::size_t i = 0; i < count; ++i) {
            // The middle of the i-th of as many equal parts.
            frames.push_back(first + (2 * i + 1) * available / (2 * count));
        }
    } else if (choice.rate > 0) {
        const double begin = index.seconds(first, stream);
        const double shown = stream.frame_rate.num > 0 ? 1 / av_q2d(stream.frame_rate) : 1 / choice.rate;
        const double end = index.seconds(last - 1, stream) + shown;
        std::size_t frame = first;
        for (std::size_t i = 0; i < choice.num_frames; ++i) {
            constexpr double kTolerance = 1e-7;  // Seconds: moments such as 1 / 3 are not exact.
            const double moment = begin + static_cast<double>(i) / choice.rate + kTolerance;
            if (moment >= end) {
                break;
            }
            while (frame + 1 < last && index.seconds(frame + 1, stream) <= moment) {
                ++frame;
            }
            frames.push_back(frame);
        }
    } else {
        for (std::size_t frame = first; frame < last && frames.size() < choice.num_frames; frame += choice.step) {
            frames.push_back(frame);
        }
    }
    return frames;
}

}  // namespace spdl
