#include "av/sound_extent.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "av/packet_list.h"
#include "av/packet_samples.h"
#include "av/sample_clock.h"
#include "av/stream_decoder.h"
#include "core/media_error.h"
#include "ffmpeg/times.h"

namespace spdl {
namespace {

// Decodes sound from some place on, and keeps nothing but where it lies.
class Decoding {
  public:
    explicit Decoding(const std::shared_ptr<const Stream>& stream, const DecodeOptions& options)
        : decoder_(stream, options), clock_(stream) {}

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
    SampleClock clock_;
    std::int64_t begin_ = 0;
    std::int64_t end_ = std::numeric_limits<std::int64_t>::min();
    int rate_ = 0;
};

}  // namespace

SoundExtent measure_sound(Container& container, int index, const DecodeOptions& options) {
    const std::shared_ptr<const Stream> stream = container.begin(index, {});
    Decoding beginning(stream, options);
    const bool counted = is_counted(*stream);
    std::int64_t last = AV_NOPTS_VALUE;
    while (const PacketPtr packet = container.read()) {
        last = std::max(last, time_of(*packet));
        // Without times, nobody knows where the end is.
        if (!beginning.started() || last == AV_NOPTS_VALUE || counted) {
            beginning.add(packet.get());
        }
    }
    if (!beginning.started() || last == AV_NOPTS_VALUE || counted) {
        beginning.add(nullptr);
    }
    if (!beginning.started()) {
        throw MediaError("there is no sound in the " + stream->describe());
    }
    if (last == AV_NOPTS_VALUE || counted) {
        return {beginning.begin(), beginning.end() - beginning.begin(), beginning.rate()};
    }
    const AVRational unit{1, stream->time_base.den};
    const Moment begin{rescale_time(last, stream->time_base, unit), unit.den};
    Decoding ending(container.begin(index, {begin, {}}), options);
    while (const PacketPtr packet = container.read()) {
        try {
            ending.add(packet.get());
        } catch (const MediaError&) {
            // The first packet after a seek may begin in the middle of a frame.
            if (ending.started()) {
                throw;
            }
        }
    }
    ending.add(nullptr);
    return {beginning.begin(), std::max(ending.end(), beginning.end()) - beginning.begin(), beginning.rate()};
}

}  // namespace spdl
