#include "av/video_index.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "av/key_frame.h"
#include "av/picture_order.h"
#include "av/shown_times.h"
#include "core/media_error.h"
#include "ffmpeg/times.h"

namespace spdl {
namespace {

// Collects what packets tell.
struct Packets {
    // With `all`, the order of all pictures is wanted. Otherwise it need not be known once the times are in another
    // order than that of decoding.
    explicit Packets(const Stream& of, bool all = false) : stream(of), order(of), wants_all(all) {}

    const Stream& stream;
    std::vector<PacketTimes> told;
    std::vector<std::int64_t> places;
    std::vector<std::uint8_t> keys;
    PictureOrder order;
    bool wants_all;
    bool looks = true;
    bool delays = false;       // Whether a frame is shown later than it is decoded,
    bool key_at_once = false;  // and whether a key frame is not.

    // Returns whether times of decoding may stand for some of those of showing: where frames are reordered, a key frame
    // waits, too.
    [[nodiscard]] bool is_doubtful() const {
        return order.may_reorder() && stream.times == Times::kShown && !stream.makes_up_times && delays && key_at_once;
    }

    // Returns whether the times say when pictures are shown. All those that only say when they are decoded are the
    // same.
    [[nodiscard]] bool tells_order() const { return !order.may_reorder() || told.back().shown != told.back().decoded; }

    void add(const AVPacket& packet) {
        told.push_back(times_in(packet, stream));
        places.push_back(packet.pos);
        // The first one has nothing before it to begin with, unless it says itself that it needs that.
        const bool key = is_key(packet, stream) ||
                         (keys.empty() && (packet.flags & AV_PKT_FLAG_KEY) != 0 && !tells_itself(packet, stream));
        keys.push_back((!looks || order.add(packet)) && key);
        delays = delays || (packet.dts != AV_NOPTS_VALUE && packet.pts > packet.dts);
        key_at_once = key_at_once || (key && packet.pts == packet.dts);
        const bool goes_back = told.size() > 1 && told.back().shown < told[told.size() - 2].shown;
        const bool told_all = stream.times == Times::kShown && !stream.makes_up_times;
        looks = looks && (wants_all || !told_all || !goes_back);
    }

    VideoIndex index(const TimeWindow& window, bool joined, bool in_parts) {
        const std::vector<std::size_t> seen = looks && is_doubtful() ? order.shown() : std::vector<std::size_t>();
        ShownTimes shown = shown_times(stream, told, order.reordered(), in_parts, seen);
        if (!shown.own && looks) {
            sort_keys();
        }
        std::vector<std::uint8_t> hidden;
        hidden.reserve(told.size());
        for (std::size_t i = 0; i < told.size(); ++i) {
            hidden.push_back(told[i].hidden || is_before(shown.times[i], stream.time_base, window) ||
                             is_after(shown.times[i], stream.time_base, window));
        }
        return {std::move(shown.times),
                std::move(places),
                std::move(keys),
                std::move(hidden),
                shown.own,
                joined,
                shown.told};
    }

    // Has the k-th packet that makes a frame say whether decoding can begin at the k-th frame that is shown.
    void sort_keys() {
        const std::vector<std::uint8_t> told_keys = keys;
        std::size_t next = 0;
        for (const std::size_t position : order.shown()) {
            if (told[position].hidden) {
                continue;
            }
            while (told[next].hidden) {
                ++next;
            }
            keys[next++] = told_keys[position];
        }
    }
};

// Reads all packets of a stream. Returns whether the contents of some were left out, as they seem not to be needed.
bool read_all(Container& container, int stream, Packets& found, FileEnds& ends) {
    ends = {};
    container.rewind();
    bool left_out = false;
    bool leaves_out = !found.wants_all;
    try {
        while (const PacketPtr packet = container.read()) {
            if (found.told.empty()) {
                ends.begins_with_key = is_key(*packet, found.stream);
            }
            found.add(*packet);
            ends.dts.push_back(packet->dts);
            if (leaves_out && found.tells_order()) {
                left_out = container.leave_out_contents(stream);
                leaves_out = false;
            }
        }
    } catch (const DamageError& error) {
        ends.damage = error.what();
    }
    return left_out;
}

}  // namespace

VideoIndex::VideoIndex(std::vector<std::int64_t> times, std::vector<std::int64_t> places,
                       std::vector<std::uint8_t> keys, std::vector<std::uint8_t> hidden, bool timed, bool joined,
                       bool told)
    : times_(std::move(times)),
      places_(std::move(places)),
      keys_(std::move(keys)),
      hidden_(std::move(hidden)),
      by_time_(times_.size()),
      timed_(timed),
      joined_(joined),
      told_(told) {
    for (const std::int64_t each : times_) {
        check_time(each);
    }
    const auto time = [&](std::size_t position) { return times_[position]; };
    std::iota(by_time_.begin(), by_time_.end(), std::size_t{0});
    std::ranges::stable_sort(by_time_, {}, time);
    for (const std::size_t position : by_time_) {
        if (hidden_[position] == 0) {
            shown_.push_back(position);
        }
    }
}

VideoIndex VideoIndex::scan(Container& container, int stream, FileEnds& ends) {
    container.select({stream});
    const std::shared_ptr<const Stream> described = container.stream(stream);
    Packets found(*described);
    const bool left_out = read_all(container, stream, found, ends);
    const bool in_parts = container.shows_parts(stream);
    VideoIndex index = found.index({}, container.is_joined(), in_parts);
    if ((index.timed() && !found.is_doubtful()) || (found.looks && !left_out)) {
        return index;
    }
    // Only the pictures say in which order they are shown.
    Packets all(*described, true);
    read_all(container, stream, all, ends);
    return all.index({}, container.is_joined(), in_parts);
}

VideoIndex VideoIndex::without(const std::vector<std::size_t>& positions) const {
    std::vector<std::uint8_t> hidden = hidden_;
    for (const std::size_t position : positions) {
        hidden[position] = 1;
    }
    VideoIndex left(times_, places_, keys_, std::move(hidden), timed_, joined_, told_);
    if (timed_) {
        return left;
    }
    std::vector<std::int64_t> times = times_;
    std::vector<std::uint8_t> keys = keys_;
    const std::size_t num_lost = num_frames() - left.num_frames();
    for (std::size_t frame = 0; frame < left.num_frames(); ++frame) {
        times[left.position(frame)] = time(told_ ? frame + num_lost : frame);
        keys[left.position(frame)] = keys_[position(frame + num_lost)];
    }
    return {std::move(times), places_, std::move(keys), left.hidden_, false, joined_, told_};
}

VideoIndex VideoIndex::up_to(std::size_t position, std::int64_t time) const {
    std::vector<std::uint8_t> hidden = hidden_;
    for (std::size_t packet = 0; packet < times_.size(); ++packet) {
        hidden[packet] = hidden[packet] != 0 || packet >= position || (timed_ && times_[packet] > time) ? 1 : 0;
    }
    return {times_, places_, keys_, std::move(hidden), timed_, joined_, told_};
}

VideoIndex VideoIndex::of(const PacketList& packets, bool in_parts) {
    Packets found(*packets.stream);
    for (const PacketPtr& packet : packets.packets) {
        found.add(*packet);
    }
    if (found.looks || !found.is_doubtful()) {
        return found.index(packets.window, false, in_parts);
    }
    Packets all(*packets.stream, true);
    for (const PacketPtr& packet : packets.packets) {
        all.add(*packet);
    }
    return all.index(packets.window, false, in_parts);
}

void VideoIndex::settle(AVPacket& packet, std::size_t position) const {
    packet.pts = times_[position];
}

std::shared_ptr<const Stream> VideoIndex::settled(const std::shared_ptr<const Stream>& stream) const {
    return with(stream, timed_ ? Times::kShown : Times::kCounted);
}

std::size_t VideoIndex::start(std::size_t frame, int keys_back) const {
    if (!timed_) {
        return 0;
    }
    const std::size_t wanted = shown_[frame];
    for (std::size_t position = wanted + 1; position-- > 0;) {
        // Frames that follow a key frame but are shown before it may build on what came before.
        if (keys_[position] != 0 && times_[position] <= times_[wanted] && keys_back-- == 0) {
            return position;
        }
    }
    return 0;
}

std::size_t VideoIndex::find(std::int64_t time) const {
    const auto found = std::ranges::lower_bound(by_time_, time, {}, [&](std::size_t at) { return times_[at]; });
    return found == by_time_.end() || times_[*found] != time ? num_packets() : *found;
}

std::size_t VideoIndex::frame_at(std::int64_t time) const {
    const auto next = std::ranges::upper_bound(shown_, time, {}, [&](std::size_t at) { return times_[at]; });
    return next == shown_.begin() ? num_frames() : static_cast<std::size_t>(next - shown_.begin()) - 1;
}

}  // namespace spdl
