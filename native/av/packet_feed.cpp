#include "av/packet_feed.h"

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

void ContainerFeed::seek(std::size_t position) {
    const bool seeks = position > 0 && container_.can_seek(stream_);
    if (!seeks) {
        if (!found_ || position == 0 || position <= position_) {
            container_.rewind();
            position_ = kBefore;
            found_ = true;
        }
        while (position_ + 1 < position && next()) {
        }
    } else {
        found_ = false;
        container_.seek(stream_, index_.times()[position]);
    }
}

PacketPtr ContainerFeed::next() {
    PacketPtr packet;
    try {
        packet = container_.read();
    } catch (const DamageError&) {
        // An index of a damaged file ends there, too.
        if (!found_ || position_ + 1 < index_.num_packets()) {
            throw;
        }
    }
    if (packet && !found_) {
        position_ = index_.find(time_of(*packet));
        found_ = true;
    } else if (packet) {
        ++position_;
    }
    return packet;
}

PacketPtr ListFeed::next() {
    return next_ < list_.packets.size() ? reference(*list_.packets[next_++]) : nullptr;
}

}  // namespace spdl
