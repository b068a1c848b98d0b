#include "av/packet_feed.h"

#include <utility>

#include "core/media_error.h"

namespace spdl {
namespace {

// Stands for the place before the first packet.
constexpr std::size_t kBefore = static_cast<std::size_t>(-1);

}  // namespace

ContainerFeed::ContainerFeed(Container& container, int stream, const VideoIndex& index)
    : container_(container), stream_(stream), index_(index) {
    container_.select({stream});
}

// Returns whether the container led to this position, or to a packet before it that decoding can begin with.
bool ContainerFeed::try_seek(std::size_t position) {
    if (position == 0 || index_.joined() || !container_.can_seek(stream_)) {
        return false;
    }
    known_ = false;
    container_.seek(stream_, index_.times()[position]);
    found_ = container_.read();
    if (!found_) {
        return false;
    }
    const bool reorders = container_.stream(stream_)->parameters->video_delay > 0;
    position_ = index_.find(reorders ? found_->pts : time_of(*found_));
    known_ = position_ <= position && index_.keys()[position_] != 0;
    return known_;
}

void ContainerFeed::seek(std::size_t position) {
    if (try_seek(position)) {
        if (position_ == position) {
            return;
        }
    } else if (!known_ || position == 0 || position <= position_) {
        container_.rewind();
        position_ = kBefore;
        known_ = true;
    }
    found_.reset();
    while (position_ + 1 < position && read()) {
    }
}

PacketPtr ContainerFeed::read() {
    try {
        PacketPtr packet = container_.read();
        position_ += packet ? std::size_t{1} : std::size_t{0};
        return packet;
    } catch (const DamageError&) {
        // An index of a damaged file ends there, too.
        if (position_ + 1 < index_.num_packets()) {
            throw;
        }
        return nullptr;
    }
}

PacketPtr ContainerFeed::next() {
    PacketPtr packet = found_ ? std::move(found_) : read();
    if (packet && position_ < index_.num_packets()) {
        index_.settle(*packet, position_);
    }
    return packet;
}

PacketPtr ListFeed::next() {
    return next_ < list_.packets.size() ? reference(*list_.packets[next_++]) : nullptr;
}

}  // namespace spdl
