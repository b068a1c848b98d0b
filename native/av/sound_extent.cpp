#include "av/sound_extent.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "av/frame_clock.h"
#include "av/last_packets.h"
#include "av/packet_list.h"
#include "av/packet_samples.h"
#include "av/sound_feed.h"
#include "av/stream_decoder.h"
#include "core/media_error.h"
#include "ffmpeg/times.h"

namespace spdl {
namespace {

// Decodes sound from some place on, and keeps nothing but where it lies.
class Decoding {
  public:
    Decoding(const std::shared_ptr<const Stream>& stream, const DecodeOptions& options)
        : decoder_(stream, options), clock_(stream, decoder_.keeps_damaged()) {}

    // Takes the next packet; null says that there are no more.
    void add(const AVPacket* packet) {
        if (packet != nullptr) {
            clock_.see(*packet);
        }
        decoder_.add(packet);
        while (const FramePtr frame = decoder_.get()) {
            const std::int64_t place = clock_.place(*frame);
            if (!started()) {
                begin_ = place;
                rate_ = frame->sample_rate;
            }
            end_ = std::max(end_, place + frame->nb_samples);
        }
    }

    [[nodiscard]] bool started() const { return rate_ > 0; }
    [[nodiscard]] std::int64_t begin() const { return begin_; }
    [[nodiscard]] std::int64_t end() const { return end_; }
    [[nodiscard]] int rate() const { return rate_; }

  private:
    StreamDecoder decoder_;
    FrameClock clock_;
    std::int64_t begin_ = 0;
    std::int64_t end_ = std::numeric_limits<std::int64_t>::min();
    int rate_ = 0;
};

// Decodes the last packets. Returns where they end.
std::int64_t decode_end(LastPackets& packets, Decoding& decoding) {
    while (const PacketPtr packet = packets.take()) {
        try {
            decoding.add(packet.get());
        } catch (const MediaError&) {
            // What the first packets build on is missing.
            if (decoding.started()) {
                throw;
            }
        }
    }
    decoding.add(nullptr);
    return decoding.end();
}

}  // namespace

SoundExtent measure_sound(Container& container, int index, const DecodeOptions& options) {
    container.check_one_clock(index);
    SoundFeed feed(container, index, {});
    const std::shared_ptr<const Stream>& stream = feed.stream();
    Decoding beginning(stream, options);
    LastPackets ending(*stream->parameters);
    const AVRational sample{1, std::max(stream->parameters->sample_rate, 1)};
    // Without exact times, nobody knows where the end is.
    bool timed = !is_counted(*stream);
    while (PacketPtr packet = feed.next()) {
        timed = timed && time_of(*packet) != AV_NOPTS_VALUE;
        if (!beginning.started() || !timed) {
            beginning.add(packet.get());
        }
        if (timed) {
            const std::int64_t samples = rescale_time(packet->duration, stream->time_base, sample);
            ending.add(std::move(packet), samples);
        }
    }
    if (!beginning.started() || !timed) {
        beginning.add(nullptr);
    }
    if (!beginning.started()) {
        throw MediaError("there is no sound in the " + stream->describe());
    }
    std::int64_t end = beginning.end();
    if (timed) {
        Decoding last(stream, options);
        end = std::max(end, decode_end(ending, last));
    }
    return {beginning.begin(), end - beginning.begin(), beginning.rate()};
}

}  // namespace spdl
