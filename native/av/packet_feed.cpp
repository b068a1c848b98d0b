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
    sought_ = true;
    container_.seek(stream_, index_.times()[position]);
    found_ = container_.read();
    if (!found_) {
        return false;
    }
    const bool reorders = container_.stream(stream_)->parameters->video_delay > 0;
    position_ = index_.find(reorders ? found_->pts : time_of(*found_));
    known_ = position_ <= position && index_.keys()[position_] != 0 && is_at(found_, position_);
    return known_;
}

// Returns whether a packet, or the end, is where the index has it.
bool ContainerFeed::is_at(const PacketPtr& packet, std::size_t position) const {
    const bool ends = position >= index_.num_packets();
    return packet && !ends ? packet->pos == index_.places()[position] : !packet == ends;
}

void ContainerFeed::begin() {
    container_.rewind();
    position_ = kBefore;
    known_ = true;
    sought_ = false;
}

void ContainerFeed::seek(std::size_t position) {
    if (try_seek(position)) {
        if (position_ == position) {
            return;
        }
    } else if (!known_ || position == 0 || position <= position_) {
        begin();
    }
    found_.reset();
    while (position_ + 1 < position && read()) {
    }
}

PacketPtr ContainerFeed::read() {
    try {
        PacketPtr packet = read_next();
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

PacketPtr ContainerFeed::read_next() {
    PacketPtr packet = container_.read();
    if (sought_ && !is_at(packet, position_ + 1)) {
        const std::size_t wanted = position_;
        for (begin(); position_ != wanted && (packet = container_.read()); ++position_) {
        }
        packet = container_.read();
    }
    if (packet && !is_at(packet, position_ + 1)) {
        throw MediaError(
            "the file has other packets than its index says: it was changed, or the index is that of "
            "another file. Open it without an index");
    }
    return packet;
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
