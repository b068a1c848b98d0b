#include "av/sound_feed.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string_view>
#include <utility>

#include "av/packet_samples.h"
#include "core/little_endian.h"
#include "core/media_error.h"
#include "ffmpeg/times.h"

namespace spdl {
namespace {

// Returns whether the times in a container are those of samples, also after a seek, and go forward only.
bool has_exact_times(std::string_view format, const Stream& stream) {
    constexpr std::array<std::string_view, 10> kExact{
        "mov,mp4,m4a,3gp,3g2,mj2", "wav", "w64", "aiff", "au", "caf", "mp3", "tta", "wv", "ape"};
    // FFmpeg takes the sizes of packets of FLAC in CAF for their durations if they are alone.
    const bool flac_in_caf = format == "caf" && stream.parameters->codec_id == AV_CODEC_ID_FLAC;
    return std::ranges::find(kExact, format) != kExact.end() && !flac_in_caf && times_are_exact(stream);
}

// Returns whether a container leads to the begin of a window, and tells which sample is when from there on. Behind the
// end that an MP3 file says another one may follow.
bool leads_to(Container& container, int index, const Stream& stream, const TimeWindow& window) {
    const std::string_view format = container.format();
    if (!has_exact_times(format, stream) || is_counted(stream) || depends_on_all(*stream.parameters)) {
        return false;
    }
    if (format != "mp3") {
        return true;
    }
    const AVRational sample{1, stream.parameters->sample_rate};
    const std::optional<std::int64_t> end = container.promised_end(index);
    return window.start && end && sample_at(*window.start, sample.den) < rescale_time(*end, stream.time_base, sample);
}

// Has a packet say how much of what it decodes to is left out. The demuxer of Ogg counts on from the packet before,
// which after a seek is another one.
void tell_left_out(AVPacket& packet, std::uint32_t begin, std::uint32_t end) {
    constexpr std::size_t kSize = 10;  // As FFmpeg describes AV_PKT_DATA_SKIP_SAMPLES.
    std::size_t size = 0;
    std::uint8_t* told = av_packet_get_side_data(&packet, AV_PKT_DATA_SKIP_SAMPLES, &size);
    if (told == nullptr || size < kSize) {
        if (begin == 0 && end == 0) {
            return;
        }
        told = av_packet_new_side_data(&packet, AV_PKT_DATA_SKIP_SAMPLES, kSize);
        if (told == nullptr) {
            throw std::bad_alloc();
        }
        std::fill_n(told, kSize, std::uint8_t{0});
    }
    store_le(told, begin);
    store_le(told + sizeof(begin), end);
}

}  // namespace

SoundFeed::SoundFeed(Container& container, int index, const TimeWindow& window)
    : container_(container),
      index_(index),
      window_(window),
      stream_(container.stream(index)),
      before_(*stream_->parameters) {
    if (!window.whole()) {
        container.check_one_clock(index);
    }
    if (!leads_to(container, index, *stream_, window)) {
        begin();
        return;
    }
    TimeWindow begun;
    if (window.start) {
        const int rate = stream_->parameters->sample_rate;
        begun.start = Moment{sample_at(*window.start, rate) - before_.least(), rate};
    }
    container.begin(index, begun);
}

// Begins in a container whose times are not exact.
void SoundFeed::begin() {
    const int rate = stream_->parameters->sample_rate;
    const bool told = rate > 0 && PacketSamples(*stream_->parameters).known();
    const std::size_t wanted = told && window_.start && known().finished() && !depends_on_all(*stream_->parameters)
                                   ? known().begin(sample_at(*window_.start, rate), before_.least())
                                   : 0;
    const std::shared_ptr<const Stream> stream = told ? count_samples(*stream_) : stream_;
    if (wanted == 0 || !seek(wanted)) {
        known_.reset();
        container_.begin(index_, {});
        if (told) {
            // Who reads a part only has no use for it.
            const bool fills = window_.whole() && !known().finished();
            if (fills) {
                known() = {};
            }
            const std::int64_t period = rescale_time(container_.period(index_), stream_->time_base, {1, rate});
            clock_.emplace(stream, stream_->time_base, container_.tells_each_time(), period,
                           fills ? &known() : nullptr);
        }
    }
    stream_ = stream;
}

// Goes to a packet of the index, which is not the first one. Returns whether it was found. The first packets after a
// seek may be cut, or have names that others have, and some demuxers go too far.
bool SoundFeed::seek(std::size_t wanted) {
    container_.select({index_});
    for (const std::size_t back : {4U, 32U, 256U}) {
        try {
            if (wanted > back && wanted < known().size() && seek_from(wanted - back, wanted)) {
                return true;
            }
        } catch (const MediaError&) {
            // It is told where it is read from the beginning.
            return false;
        }
    }
    return false;
}

bool SoundFeed::seek_from(std::size_t near, std::size_t wanted) {
    constexpr std::size_t kMost = 400;
    const SoundIndex::Entry& entry = known()[near];
    known_.reset();
    if (entry.time == AV_NOPTS_VALUE || entry.byte < 0 || !container_.go_near(index_, entry.time, entry.byte)) {
        return false;
    }
    for (std::size_t count = 0; count < kMost && !known_; ++count) {
        const PacketPtr packet = container_.read();
        known_ = packet ? known().find(SoundIndex::name(*packet)) : std::nullopt;
    }
    if (!known_ || ++*known_ > wanted) {
        return false;
    }
    while (*known_ < wanted) {
        const PacketPtr packet = container_.read();
        if (!packet || SoundIndex::name(*packet) != known()[(*known_)++].name) {
            return false;
        }
    }
    return true;
}

// Returns the next packet, which is in the index; null at the end.
PacketPtr SoundFeed::take_known() {
    PacketPtr packet = container_.read();
    if (packet == nullptr && *known_ == known().size()) {
        return nullptr;
    }
    if (packet == nullptr || *known_ >= known().size() || SoundIndex::name(*packet) != known()[*known_].name) {
        throw MediaError("the " + stream_->describe() + " has other packets than when it was read first");
    }
    const SoundIndex::Entry& entry = known()[(*known_)++];
    tell_left_out(*packet, entry.begin, entry.end);
    SampleClock::put(*packet, entry.place, entry.samples);
    return packet;
}

// Returns the next packet of the stream; null at the end, or at damage, which is told when the packets before it are
// used up.
PacketPtr SoundFeed::read() {
    try {
        return container_.read();
    } catch (const MediaError&) {
        failure_ = std::current_exception();
        return nullptr;
    }
}

// Returns the next packet that the clock has placed; null at the end.
PacketPtr SoundFeed::take() {
    if (known_) {
        return take_known();
    }
    for (;;) {
        if (PacketPtr packet = clock_->take()) {
            return packet;
        }
        if (clock_->ended()) {
            if (failure_) {
                std::rethrow_exception(failure_);
            }
            if (window_.whole()) {
                known().finish();
            }
            return nullptr;
        }
        if (PacketPtr packet = read()) {
            clock_->add(std::move(packet));
        } else {
            clock_->end();
        }
    }
}

bool SoundFeed::is_before(const AVPacket& packet) const {
    return window_.start && packet.pts + packet.duration <= sample_at(*window_.start, stream_->time_base.den);
}

PacketPtr SoundFeed::next() {
    if (!clock_ && !known_) {
        PacketPtr packet = container_.read();
        return packet && !is_behind(*packet, *stream_, window_) ? std::move(packet) : nullptr;
    }
    if (!first_) {
        while ((first_ = take()) && is_before(*first_) && !depends_on_all(*stream_->parameters)) {
            const std::int64_t samples = first_->duration;
            before_.add(std::move(first_), samples);
        }
    }
    if (PacketPtr packet = before_.take()) {
        return packet;
    }
    return first_ && !is_behind(*first_, *stream_, window_) ? std::move(first_) : nullptr;
}

PacketList demux_sound(Container& container, int index, const TimeWindow& window) {
    SoundFeed feed(container, index, window);
    PacketList list{feed.stream(), {}, window};
    while (PacketPtr packet = feed.next()) {
        list.packets.push_back(std::move(packet));
    }
    return list;
}

}  // namespace spdl
