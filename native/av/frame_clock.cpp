#include "av/frame_clock.h"

#include <cstdlib>
#include <string>

#include "av/packet_samples.h"
#include "core/media_error.h"
#include "ffmpeg/times.h"

namespace spdl {

void FrameClock::see(const AVPacket& packet) {
    if (!stream_->counts_samples) {
        return;
    }
    if (packet_end_ && packet.pts > *packet_end_) {
        gaps_.insert(packet.pts);
    }
    packet_end_ = packet.pts + packet.duration;
}

std::int64_t FrameClock::place(const AVFrame& frame) {
    std::int64_t found = rescale_time(frame.pts, stream_->time_base, {1, frame.sample_rate});
    if (next_ && is_counted(*stream_)) {
        found = *next_;
    }
    if (stream_->counts_samples && !keep_damaged_) {
        check(found, frame);
    }
    next_ = found + frame.nb_samples;
    return found;
}

void FrameClock::check(std::int64_t place, const AVFrame& frame) {
    const auto refuse = [&](const std::string& what) {
        throw MediaError("cannot tell which sample is when in the " + stream_->describe() + ": at " +
                         std::to_string(stream_->seconds(frame.pts)) + " s " + what +
                         ". Load all of it, without a window: load_audio gives what there is");
    };
    const int rate = stream_->parameters->sample_rate;
    if (frame.sample_rate != rate) {
        refuse("its rate changes from " + std::to_string(rate) + " to " + std::to_string(frame.sample_rate) + " Hz");
    }
    const bool gap = gaps_.erase(place) > 0;
    if (next_ && place != *next_ && !gap) {
        const std::int64_t more = *next_ - place;
        refuse("a packet decodes to " + std::to_string(std::abs(more)) + " samples " + (more > 0 ? "more" : "fewer") +
               " than it says");
    }
}

void FrameClock::reset() {
    next_.reset();
    packet_end_.reset();
    gaps_.clear();
}

}  // namespace spdl
