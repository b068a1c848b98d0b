#include "av/packet_feed.h"

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
    PacketPtr packet = container_.read();
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
