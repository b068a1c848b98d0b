#include "av/packet_feed.h"

#include "core/media_error.h"

namespace spdl {

ContainerFeed::ContainerFeed(Container& container, int stream, const VideoIndex& index)
    : container_(container), stream_(stream), index_(index) {
    container_.select({stream});
}

void ContainerFeed::seek(std::size_t position) {
    found_ = position == 0;
    if (position == 0) {
        container_.rewind();
        position_ = static_cast<std::size_t>(-1);
    } else {
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
