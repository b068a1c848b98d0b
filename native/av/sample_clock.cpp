#include "av/sample_clock.h"

#include <algorithm>
#include <cstdlib>

#include "av/packet_samples.h"
#include "ffmpeg/times.h"

namespace spdl {
namespace {

// Demuxers make up the times of packets that share one.
constexpr int kMadeUp = 4;

// Returns the largest error of a time against that of another packet, in samples. Up to five numbers are rounded: both
// times, what was left out in front of the sound (Matroska takes that off every time), and what the decoder leaves out
// where it begins, which is added again.
std::int64_t largest_error(const Stream& stream, int rate) {
    constexpr int kRounded = 3;
    constexpr int kLargestBlock = 8192;
    if (stream.parameters->codec_id == AV_CODEC_ID_VORBIS) {
        return kLargestBlock;
    }
    return av_rescale_q_rnd(kRounded, stream.time_base, {1, rate}, AV_ROUND_UP) + kMadeUp;
}

}  // namespace

void SampleClock::see(const AVPacket& packet) {
    if (!seen_ && stream_->medium == Medium::kAudio) {
        seen_ = true;
        grid_ = times_are_exact(*stream_) ? 0 : samples_of_each_packet(*stream_->parameters, packet);
    }
}

std::int64_t SampleClock::place(const AVFrame& frame) {
    std::int64_t found = rescale_time(frame.pts, stream_->time_base, {1, frame.sample_rate});
    if (next_ && is_counted(*stream_)) {
        found = *next_;
    } else if (!times_are_exact(*stream_)) {
        if (next_ && rate_ == frame.sample_rate) {
            // A gap is real if it is longer than a time may be wrong. Times of frames that follow each other, which
            // clocks of other devices may have written, are allowed a millisecond in any case.
            constexpr int kMilliseconds = 1000;
            const std::int64_t allowed = std::max<std::int64_t>(largest_error(*stream_, frame.sample_rate),
                                                                frame.sample_rate / kMilliseconds + kMadeUp);
            found = std::abs(found - *next_) <= allowed ? *next_ : found;
        } else {
            found = on_grid(found, frame);
        }
    }
    rate_ = frame.sample_rate;
    next_ = found + frame.nb_samples;
    return found;
}

std::int64_t SampleClock::on_grid(std::int64_t place, const AVFrame& frame) const {
    const AVCodecParameters& sound = *stream_->parameters;
    if (grid_ == 0 || stream_->start == AV_NOPTS_VALUE || sound.sample_rate != frame.sample_rate) {
        return place;
    }
    const std::int64_t error = largest_error(*stream_, frame.sample_rate);
    // The grid begins with the first packet. Where the decoder leaves out what the encoder put in front, the sound
    // begins at 0, and that says more than the packet's rounded time. One that is further off means what it says.
    std::int64_t origin = rescale_time(stream_->start, stream_->time_base, {1, frame.sample_rate});
    const std::int64_t rounding = av_rescale_q_rnd(1, stream_->time_base, {1, frame.sample_rate}, AV_ROUND_UP);
    if (sound.initial_padding > 0 && std::abs(origin + sound.initial_padding) <= rounding) {
        origin = -sound.initial_padding;
    }
    // What was cut off a frame was its beginning: whoever begins at the last frame has nothing in front of it to skip.
    const std::int64_t missing = frame.nb_samples < grid_ ? grid_ - frame.nb_samples : 0;
    const std::int64_t from_start = place - missing - origin;
    const std::int64_t steps = (from_start + (from_start < 0 ? -grid_ : grid_) / 2) / grid_;
    const std::int64_t off = from_start - steps * grid_;
    return std::abs(off) <= error ? place - off : place;
}

void SampleClock::reset() {
    seen_ = false;
    next_.reset();
}

std::int64_t SampleClock::slack(const Stream& stream) {
    const int rate = stream.parameters->sample_rate;
    if (stream.medium == Medium::kVideo || rate <= 0 || times_are_exact(stream)) {
        return 0;
    }
    return av_rescale_q_rnd(largest_error(stream, rate), {1, rate}, stream.time_base, AV_ROUND_UP);
}

bool SampleClock::begins_anywhere(const Stream& stream, const AVPacket& packet) {
    if (times_are_exact(stream)) {
        return true;
    }
    const int rate = stream.parameters->sample_rate;
    return rate > 0 && samples_of_each_packet(*stream.parameters, packet) > 2 * largest_error(stream, rate);
}

}  // namespace spdl
