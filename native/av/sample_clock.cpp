#include "av/sample_clock.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <utility>

#include "av/packet_list.h"
#include "core/little_endian.h"
#include "ffmpeg/times.h"

namespace spdl {
namespace {

// A time that is wrong is right again after a few packets.
constexpr std::size_t kPacketsAhead = 8;
// Damaged packets may have no samples.
constexpr std::size_t kMostAhead = 1000;
constexpr int kPartOfSecond = 8;

// Returns by how many samples a time may be off. Up to three numbers are rounded: the time, what was left out in front
// of the sound (Matroska takes that off every time), and the duration that a demuxer has added to the time before.
// Clocks of other devices may have written them, so that they are allowed a millisecond in any case. FFmpeg derives the
// times of Vorbis in Ogg from the sizes of blocks, gets some wrong where these change, and so copies them elsewhere.
std::int64_t largest_error(const Stream& counted, AVRational unit) {
    constexpr int kRounded = 3;
    constexpr int kMadeUp = 4;
    constexpr int kMilliseconds = 1000;
    constexpr int kLargestBlock = 8192;
    const int rate = counted.parameters->sample_rate;
    const std::int64_t rounding = av_rescale_q_rnd(kRounded, unit, {1, rate}, AV_ROUND_UP);
    const std::int64_t block = counted.parameters->codec_id == AV_CODEC_ID_VORBIS ? kLargestBlock : 0;
    return std::max({rounding + kMadeUp, std::int64_t{rate} / kMilliseconds + kMadeUp, block});
}

}  // namespace

std::shared_ptr<const Stream> count_samples(const Stream& stream) {
    const AVRational sample{1, stream.parameters->sample_rate};
    Stream counted = with(stream, copy_parameters(*stream.parameters));
    for (std::int64_t* const time : {&counted.start, &counted.duration}) {
        *time = *time == AV_NOPTS_VALUE ? AV_NOPTS_VALUE : rescale_time(*time, stream.time_base, sample);
    }
    counted.time_base = sample;
    counted.counts_samples = true;
    return std::make_shared<const Stream>(std::move(counted));
}

void SampleClock::put(AVPacket& packet, std::int64_t place, std::int64_t samples) {
    packet.pts = place;
    packet.dts = place;
    packet.duration = samples;
}

SampleClock::SampleClock(std::shared_ptr<const Stream> counted, AVRational unit, bool timed, std::int64_t period,
                         SoundIndex* index)
    : counted_(std::move(counted)),
      unit_(unit),
      timed_(timed),
      period_(period),
      allowed_(largest_error(*counted_, unit)),
      samples_(*counted_->parameters),
      index_(index) {}

void SampleClock::add(PacketPtr packet) {
    Queued queued;
    const std::int64_t time = time_of(*packet);
    if (time != AV_NOPTS_VALUE) {
        queued.time = rescale_time(time, unit_, counted_->time_base);
    }
    const int samples = samples_.of(*packet);
    if (samples > 0) {
        usual_ = samples;
    }
    // In Ogg there are headers among the packets. Others that do not tell are damaged.
    const AVCodecID codec = counted_->parameters->codec_id;
    const bool in_ogg = codec == AV_CODEC_ID_VORBIS || codec == AV_CODEC_ID_FLAC;
    queued.samples = in_ogg ? samples : usual_;
    std::size_t size = 0;
    const std::uint8_t* const skipped = av_packet_get_side_data(packet.get(), AV_PKT_DATA_SKIP_SAMPLES, &size);
    if (skipped != nullptr && size >= 2 * sizeof(std::uint32_t)) {
        queued.begin = load_le<std::uint32_t>(skipped);
        // Decoders leave out nothing if it is more than there is: that comes of a time that is wrong.
        const std::int64_t end = load_le<std::uint32_t>(skipped + sizeof(std::uint32_t));
        queued.end = end <= queued.samples ? end : 0;
    }
    ahead_ += queued.samples;
    queued.name = index_ != nullptr ? SoundIndex::name(*packet) : 0;
    queued.packet = std::move(packet);
    queue_.push_back(std::move(queued));
}

bool SampleClock::sees_enough() const {
    return ended_ || queue_.size() > kMostAhead ||
           (queue_.size() > kPacketsAhead && ahead_ > counted_->time_base.den / kPartOfSecond);
}

PacketPtr SampleClock::take() {
    if (queue_.empty() || !sees_enough()) {
        return nullptr;
    }
    const std::int64_t found = place();
    Queued taken = std::move(queue_.front());
    queue_.pop_front();
    ahead_ -= taken.samples;
    const std::int64_t samples = taken.samples - taken.end;
    next_ = found + samples;
    if (index_ != nullptr) {
        index_->add({taken.name, taken.packet->pos, time_of(*taken.packet), found, samples,
                     static_cast<std::uint32_t>(taken.begin), static_cast<std::uint32_t>(taken.end)});
    }
    put(*taken.packet, found, samples);
    return std::move(taken.packet);
}

// Returns where the first packet begins: as the first time says that there is.
std::int64_t SampleClock::first_place() const {
    // The first packet of Vorbis decodes to nothing.
    const bool silent = counted_->parameters->codec_id == AV_CODEC_ID_VORBIS && queue_.size() > 1;
    std::int64_t before = 0;
    for (const Queued& queued : queue_) {
        if (queued.time && !(silent && &queued == &queue_.front())) {
            // Where the decoder leaves out what the encoder put in front, the sound begins at 0, and that says more
            // than a rounded time. One that is further off means what it says.
            const std::int64_t found = *queued.time - before;
            const std::int64_t padding = counted_->parameters->initial_padding;
            const std::int64_t rounding = av_rescale_q_rnd(1, unit_, counted_->time_base, AV_ROUND_UP);
            return padding > 0 && std::abs(found + padding) <= rounding ? -padding : found;
        }
        before += queued.samples - queued.end;
    }
    return counted_->start == AV_NOPTS_VALUE ? 0 : counted_->start;
}

bool SampleClock::agrees(std::int64_t time, std::int64_t place) const {
    return std::abs(time + offset_ - place) <= allowed_;
}

// Returns whether the packets behind the next one are where they belong if that one lies at a place, whatever its own
// time says.
bool SampleClock::is_taken_back(std::int64_t place) const {
    for (std::size_t i = 1; i < queue_.size(); ++i) {
        place += queue_[i - 1].samples - queue_[i - 1].end;
        if (queue_[i].time && agrees(*queue_[i].time, place - queue_[i].begin)) {
            return true;
        }
    }
    return false;
}

std::int64_t SampleClock::place() {
    const Queued& queued = queue_.front();
    if (!next_) {
        return first_place();
    }
    const std::int64_t expected = *next_ - queued.begin;
    if (!timed_ || !queued.time || agrees(*queued.time, expected) || is_taken_back(expected)) {
        return expected;
    }
    // See clock_period().
    const std::int64_t missing = *queued.time + offset_ - expected;
    if (missing > 0 && (period_ == 0 || missing < period_ / 2)) {
        return expected + missing;
    }
    // The times go back: another piece follows, with a clock of its own.
    offset_ = expected - *queued.time;
    return expected;
}

}  // namespace spdl
