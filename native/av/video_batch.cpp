#include <algorithm>
#include <cstring>
#include <memory>

#include "av/batches.h"
#include "av/container.h"
#include "av/frame_reader.h"
#include "av/muxer.h"
#include "av/video_index.h"
#include "core/errors.h"
#include "core/files.h"
#include "core/parallel.h"

namespace spdl {
namespace {

double seconds_of(const Moment& moment) {
    return static_cast<double>(moment.numerator) / static_cast<double>(moment.denominator);
}

// Returns when the last frame ends if it is shown for as long as others.
double usual_end(const VideoIndex& index, const Stream& stream, double rate) {
    const double shown = index.usual_step(stream);
    return index.seconds(index.num_frames() - 1, stream) + (shown > 0 ? shown : 1 / rate);
}

// Returns when the first moment is.
double first_moment(const VideoIndex& index, const Stream& stream, const TimeWindow& window) {
    const double first = index.seconds(0, stream);
    return window.start ? std::max(seconds_of(*window.start), first) : first;
}

// Returns when the last frame ends, which the container may tell.
double end_of(const VideoIndex& index, const Stream& stream, double rate) {
    const double end = usual_end(index, stream, rate);
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

// Writes the clip of one video, and returns how many pictures it has.
std::size_t load_clip(const MediaInput& input, const LoadOptions& options, const VideoBatchOptions& batch,
                      std::uint8_t* to) {
    Container container(input.open(), batch.demux, Probing::kPackets);
    const auto number = container.best_stream(Medium::kVideo);
    if (!number) {
        throw MediaError("there is no video stream in it");
    }
    const std::shared_ptr<const Stream> stream = container.stream(*number);
    const auto [index, damage] = scan_video(container, *number, batch.decode);
    const std::vector<std::size_t> frames = choose_frames(index, *stream, input.window, batch.choice);
    // The clip of a damaged file counts if it would be the same without the damage.
    if (!damage.empty() && may_reach_behind(index, *stream, input.window, batch.choice, frames.size())) {
        throw MediaError(damage);
    }
    if (frames.empty()) {
        throw MediaError("no frame appears within the window");
    }
    std::vector<std::size_t> wanted = frames;
    wanted.erase(std::ranges::unique(wanted).begin(), wanted.end());
    ContainerFeed feed(container, *number, index);
    FramePicker picker(stream, batch.decode, feed, index);
    PictureWriter writer(options, stream->rotation);
    const std::size_t bytes = options.format.image_bytes(options.target);
    std::size_t row = 0;
    picker.pick(wanted, [&](std::size_t frame, const FramePtr& decoded) {
        writer.open(*decoded);
        std::uint8_t* const first = to + row * bytes;
        writer.write(first);
        for (++row; row < frames.size() && frames[row] == frame; ++row) {
            std::memcpy(to + row * bytes, first, bytes);
        }
    });
    return frames.size();
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
        return last > usual_end(index, stream, choice.rate);
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

VideoBatch load_video_batch(const std::vector<MediaInput>& inputs, const LoadOptions& options,
                            const VideoBatchOptions& batch, const Memory* memory) {
    std::vector<std::size_t> shape = options.format.shape(batch.choice.num_frames, options.target);
    shape.insert(shape.begin(), inputs.size());
    VideoBatch result;
    result.clips = allocate_in(memory, std::move(shape), options.format.type());
    result.lengths.resize(inputs.size());
    std::vector<std::string> reasons(inputs.size());
    // No overflow: the array fits into memory.
    const std::size_t clip_bytes = batch.choice.num_frames * options.format.image_bytes(options.target);
    run_parallel(batch.num_threads, 0, inputs.size(), [&](std::size_t i) {
        std::uint8_t* const to = result.clips.data + i * clip_bytes;
        try {
            result.lengths[i] = load_clip(inputs[i], options, batch, to);
        } catch (const MediaError& error) {
            reasons[i] = error.what();
        }
        const std::size_t written = result.lengths[i] * options.format.image_bytes(options.target);
        std::memset(to + written, 0, clip_bytes - written);
    });
    const std::size_t kept = keep_rows(reasons, batch.keep_failed, [&](std::size_t from, std::size_t to) {
        std::memcpy(result.clips.data + to * clip_bytes, result.clips.data + from * clip_bytes, clip_bytes);
        result.lengths[to] = result.lengths[from];
    });
    result.failures = failures_of(std::move(reasons));
    result.lengths.resize(kept);
    if (kept == 0) {
        result.clips = {};
    } else {
        result.clips.shape.front() = kept;
    }
    return result;
}

}  // namespace spdl
