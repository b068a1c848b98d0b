#include "av/clip_choice.h"

#include <algorithm>

namespace spdl {

namespace {

double seconds_of(const Moment& moment) {
    return static_cast<double>(moment.numerator) / static_cast<double>(moment.denominator);
}

// Returns when the last frame ends if it is shown for as long as the average.
double average_end(const VideoIndex& index, const Stream& stream, double rate) {
    const double shown = stream.frame_rate.num > 0 ? 1 / av_q2d(stream.frame_rate) : 1 / rate;
    return index.seconds(index.num_frames() - 1, stream) + shown;
}

// Returns when the first moment is.
double first_moment(const VideoIndex& index, const Stream& stream, const TimeWindow& window) {
    const double first = index.seconds(0, stream);
    return window.start ? std::max(seconds_of(*window.start), first) : first;
}

// Returns when the last frame ends, which the container may tell.
double end_of(const VideoIndex& index, const Stream& stream, double rate) {
    const double end = average_end(index, stream, rate);
    const bool told = index.timed() && stream.start != AV_NOPTS_VALUE && stream.duration > 0;
    return told ? std::max(end, stream.seconds(stream.start) + stream.seconds(stream.duration)) : end;
}

// Returns the frames that are on the screen at moments of equal distance, from the start of the window on.
std::vector<std::size_t> at_moments(const VideoIndex& index, const Stream& stream, const TimeWindow& window,
                                    const ClipChoice& choice) {
    constexpr double kTolerance = 1e-7;  // Seconds: moments such as 1 / 3 are not exact.
    std::vector<std::size_t> frames;
    if (index.num_frames() == 0) {
        return frames;
    }
    const double begin = first_moment(index, stream, window);
    double end = end_of(index, stream, choice.rate);
    if (window.end) {
        end = std::min(end, seconds_of(*window.end));
    }
    std::size_t frame = 0;
    for (std::size_t i = 0; i < choice.num_frames; ++i) {
        const double moment = begin + static_cast<double>(i) / choice.rate;
        if (moment + kTolerance >= end) {
            break;
        }
        while (frame + 1 < index.num_frames() && index.seconds(frame + 1, stream) <= moment + kTolerance) {
            ++frame;
        }
        frames.push_back(frame);
    }
    return frames;
}

}  // namespace

bool may_reach_behind(const VideoIndex& index, const Stream& stream, const TimeWindow& window, const ClipChoice& choice,
                      std::size_t chosen) {
    if (window.end && is_after(index.time(index.num_frames() - 1), stream.time_base, window)) {
        return false;
    }
    if (choice.rate > 0) {
        const double last =
            first_moment(index, stream, window) + static_cast<double>(choice.num_frames - 1) / choice.rate;
        return last > average_end(index, stream, choice.rate);
    }
    return choice.spread || chosen < choice.num_frames;
}

std::vector<std::size_t> choose_frames(const VideoIndex& index, const Stream& stream, const TimeWindow& window,
                                       const ClipChoice& choice) {
    if (choice.rate > 0) {
        return at_moments(index, stream, window, choice);
    }
    std::size_t first = 0;
    std::size_t last = index.num_frames();
    while (first < last && is_before(index.time(first), stream.time_base, window)) {
        ++first;
    }
    while (last > first && is_after(index.time(last - 1), stream.time_base, window)) {
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
    } else {
        for (std::size_t frame = first; frame < last && frames.size() < choice.num_frames; frame += choice.step) {
            frames.push_back(frame);
        }
    }
    return frames;
}

}  // namespace spdl
