#include "av/video_index.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "av/coded_pictures.h"
#include "av/frame_reader.h"
#include "av/stream_decoder.h"
#include "core/errors.h"

namespace spdl {
namespace {

// When the frames of packets are shown, in units of the stream's time base and in the order in which the packets are
// decoded.
struct ShownTimes {
    std::vector<std::int64_t> times;
    // Whether each time belongs to the packet's own frame alone. Otherwise frames must be counted, from the first
    // packet on, and these are the times of all of them together, in ascending order.
    bool own = true;
    // Whether packets had all of them, so that the others keep theirs if a frame is not made.
    bool told = true;
};

// Returns how long a frame is shown. Sums of these do not overflow.
std::int64_t step_of(const Stream& stream, std::int64_t duration) {
    if (duration <= 0 && stream.frame_rate.num > 0) {
        duration = av_rescale_q(1, av_inv_q(stream.frame_rate), stream.time_base);
    }
    return std::clamp<std::int64_t>(duration, 1, INT32_MAX);
}

// If one frame at a time waits for frames that are decoded after it but shown before, it is shown when the next waiting
// one is decoded. Demuxers may give it the time of the first of those. Another file that follows may have been moved so
// close that its first frame is decoded before the last one of those.
void fill_waiting(const std::vector<PacketTimes>& packets, std::vector<std::int64_t>& times) {
    std::int64_t next_waits = AV_NOPTS_VALUE;
    const PacketTimes* last_at_once = nullptr;  // Of those before the next one that waits.
    for (std::size_t i = packets.size(); i-- > 0;) {
        const PacketTimes& packet = packets[i];
        if (packet.decoded == AV_NOPTS_VALUE) {
            continue;
        }
        if (packet.shown == packet.decoded) {
            last_at_once = last_at_once == nullptr ? &packet : last_at_once;
            continue;
        }
        const bool repeated = i + 1 < packets.size() && packet.shown == packets[i + 1].shown;
        if (packet.shown == AV_NOPTS_VALUE || repeated) {
            const PacketTimes& last = packets.back();
            times[i] = next_waits != AV_NOPTS_VALUE || last.decoded == AV_NOPTS_VALUE ? next_waits
                                                                                      : last.decoded + last.duration;
            if (last_at_once != nullptr && times[i] != AV_NOPTS_VALUE && times[i] <= last_at_once->decoded) {
                times[i] = last_at_once->decoded + last_at_once->duration;
            }
        }
        next_waits = packet.decoded;
        last_at_once = nullptr;
    }
}

// Streams may begin with packets that do not tell all: their frames are shown before the others. If these are
// reordered, that holds for packets before the first key frame. If none tells, or later ones do not, nothing is filled.
void fill_beginning(const Stream& stream, const std::vector<PacketTimes>& packets, std::vector<std::int64_t>& times) {
    const bool reorders = stream.parameters->video_delay > 0;
    const auto is_untold = [](std::int64_t time) { return time == AV_NOPTS_VALUE; };
    const auto most = reorders ? std::ranges::find_if(packets, &PacketTimes::key) - packets.begin()
                               : std::ranges::find_if_not(times, is_untold) - times.begin();
    std::int64_t first = INT64_MAX;
    std::ptrdiff_t count = 0;
    for (std::ptrdiff_t i = 0; i < std::ssize(times); ++i) {
        const std::int64_t time = times[static_cast<std::size_t>(i)];
        first = time != AV_NOPTS_VALUE ? std::min(first, time) : first;
        count = time == AV_NOPTS_VALUE ? i + 1 : count;
    }
    if (first == INT64_MAX || count > most) {
        return;
    }
    for (auto i = static_cast<std::size_t>(count); i-- > 0;) {
        if (times[i] == AV_NOPTS_VALUE) {
            first -= step_of(stream, packets[i].duration);
            times[i] = first;
        }
    }
}

// Returns what the packets say; not all do.
std::vector<std::int64_t> told_times(const Stream& stream, const std::vector<PacketTimes>& packets) {
    const bool decoded = stream.times == Times::kDecoded;
    const int delay = stream.parameters->video_delay;
    std::vector<std::int64_t> times;
    times.reserve(packets.size());
    for (const PacketTimes& packet : packets) {
        const bool shown = !decoded && (packet.shown != AV_NOPTS_VALUE || delay > 0);
        times.push_back(shown ? packet.shown : packet.decoded);
    }
    if (!decoded && delay == 1 && stream.makes_up_times) {
        fill_waiting(packets, times);
    }
    fill_beginning(stream, packets, times);
    return times;
}

// Gives the k-th packet that makes a frame the k-th of the times of such.
std::vector<std::int64_t> in_turn(const std::vector<std::int64_t>& told, const std::vector<PacketTimes>& packets) {
    std::vector<std::int64_t> sorted;
    for (std::size_t i = 0; i < told.size(); ++i) {
        if (!packets[i].hidden) {
            sorted.push_back(told[i]);
        }
    }
    std::ranges::sort(sorted);
    std::vector<std::int64_t> times;
    times.reserve(told.size());
    std::size_t next = 0;
    for (std::size_t i = 0; i < told.size(); ++i) {
        times.push_back(next < sorted.size() ? sorted[next] : sorted.empty() ? told[i] : sorted.back());
        next += packets[i].hidden ? std::size_t{0} : std::size_t{1};
    }
    return times;
}

std::vector<std::int64_t> counted_times(const Stream& stream, const std::vector<PacketTimes>& packets) {
    FrameCounter counter(stream);
    for (const PacketTimes& packet : packets) {
        if (!packet.hidden) {
            counter.add(packet);
        }
    }
    std::vector<std::int64_t> times;
    times.reserve(packets.size());
    std::int64_t next = counter.next();
    for (const PacketTimes& packet : packets) {
        times.push_back(next);
        if (!packet.hidden) {
            next = counter.next();
        }
    }
    return times;
}

// Says when each frame of a video is shown. Nothing else says so: what reads files, windows and lists of packets asks
// here, and decoders that are given packets one by one count as this does.
//
// Not all packets say it themselves: in raw streams none do, packets of AVI only say when they are decoded, and in
// MPEG-PS only the first in each piece of the container says all. In files that were made of such ones without encoding
// they say something else: two the same, or when they are decoded although the pictures are `reordered`. Then the k-th
// frame has the k-th of the times. `order` has the positions of all packets as the pictures say that they are shown, or
// nothing if that need not be looked at. The times are also in sequence if a file shows several parts of a video,
// `in_parts`: the last frames of one may have later times than the first ones of the next.
ShownTimes shown_times(const Stream& stream, const std::vector<PacketTimes>& packets, bool reordered, bool in_parts,
                       const std::vector<std::size_t>& order) {
    const bool decoded = stream.times == Times::kDecoded && (stream.parameters->video_delay > 0 || reordered);
    if (stream.times == Times::kNone || stream.times == Times::kCounted || decoded) {
        return {counted_times(stream, packets), false, stream.times == Times::kCounted};
    }
    std::vector<std::int64_t> times = told_times(stream, packets);
    if (std::ranges::find(times, AV_NOPTS_VALUE) != times.end()) {
        return {counted_times(stream, packets), false, false};
    }
    std::vector<std::int64_t> sorted = times;
    std::ranges::sort(sorted);
    const bool unique = std::ranges::adjacent_find(sorted) == sorted.end();
    const auto not_before = [&](std::size_t a, std::size_t b) { return times[a] >= times[b]; };
    const bool contradicted =
        (reordered && sorted == times) || std::ranges::adjacent_find(order, not_before) != order.end();
    if (unique && !in_parts && !contradicted) {
        return {std::move(times), true, true};
    }
    return {in_turn(times, packets), false, true};
}

// Collects what packets tell.
struct Packets {
    // With `all`, the order of all pictures is wanted. Otherwise it need not be known once the times differ from the
    // order of decoding.
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

    // Returns whether decoding times may stand for some display times: if frames are reordered, a key frame waits, too.
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

// Returns the first packet from which on frames cannot be decoded. All that is before the last key frame is whole.
std::size_t first_undecodable(Container& container, int stream, const DecodeOptions& options, const VideoIndex& index,
                              std::size_t found) {
    ContainerFeed feed(container, stream, index);
    FramePicker picker(container.stream(stream), options, feed, index);
    const std::size_t last_key = index.num_frames() == 0 ? 0 : index.start(index.num_frames() - 1, 0);
    for (std::size_t frame = 0; frame < index.num_frames(); ++frame) {
        const std::size_t position = index.position(frame);
        if (position < last_key || position >= found) {
            continue;
        }
        try {
            picker.pick({frame}, [](std::size_t /*frame*/, const FramePtr& /*decoded*/) {});
        } catch (const MediaError&) {
            found = position;
        }
    }
    return found;
}

// Returns the time up to which no frame is missing: no packet is shown before it is decoded.
std::int64_t complete_until(const VideoIndex& index, const FileEnds& ends, const Stream& stream, std::size_t count) {
    if (count == 0) {
        return INT64_MIN;
    }
    const std::int64_t decoded = ends.dts[count - 1];
    return decoded != AV_NOPTS_VALUE ? decoded : index.times()[count - 1] - delay_of(stream);
}

// Stands for the place before the first packet.
constexpr std::size_t kBefore = static_cast<std::size_t>(-1);

}  // namespace

PacketTimes times_in(const AVPacket& packet, const Stream& stream) {
    const bool key = (packet.flags & AV_PKT_FLAG_KEY) != 0;
    return {packet.pts, packet.dts, packet.duration, key, is_hidden(packet, stream.parameters->codec_id)};
}

void FrameCounter::add(const PacketTimes& packet) {
    if (told_ == AV_NOPTS_VALUE) {
        const bool both = packet.shown != AV_NOPTS_VALUE && packet.decoded != AV_NOPTS_VALUE;
        delay_ = both && stream_->times != Times::kCounted ? packet.shown - packet.decoded : 0;
        const std::int64_t otherwise = stream_->start != AV_NOPTS_VALUE ? stream_->start : 0;
        const std::int64_t time = packet.shown != AV_NOPTS_VALUE ? packet.shown : packet.decoded;
        told_ = time != AV_NOPTS_VALUE ? time : otherwise;
        step_ = step_of(*stream_, packet.duration);
    }
    if (stream_->times != Times::kNone) {
        waiting_.push_back(stream_->times == Times::kCounted ? packet.shown : packet.decoded);
    }
}

std::int64_t FrameCounter::counted() const {
    if (stream_->frame_rate.num > 0) {
        return told_ + rescale_time(since_, av_inv_q(stream_->frame_rate), stream_->time_base);
    }
    return told_ + since_ * step_;
}

std::int64_t FrameCounter::next() {
    if (!waiting_.empty()) {
        const std::int64_t decoded = waiting_.front();
        waiting_.pop_front();
        // Each is shown after the one before.
        const bool counted = stream_->times == Times::kCounted;
        if (decoded != AV_NOPTS_VALUE && (counted || decoded + delay_ > last_)) {
            told_ = decoded + delay_;
            since_ = 0;
        }
    }
    last_ = counted();
    ++since_;
    return last_;
}

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

double VideoIndex::span(const Stream& stream) const {
    return num_frames() < 2 ? 0 : seconds(num_frames() - 1, stream) - seconds(0, stream);
}

// Times may be rounded. If the rate varies, the stated one may be that of the clock, or of the closest frames.
bool VideoIndex::has_stated_rate(const Stream& stream) const {
    const double stated = stream.frame_rate.num > 0 ? av_q2d(stream.frame_rate) : 0;
    const double found = span(stream);
    return found <= 0 || std::abs(static_cast<double>(num_frames() - 1) - found * stated) <= 0.5;
}

double VideoIndex::rate(const Stream& stream) const {
    if (has_stated_rate(stream)) {
        return stream.frame_rate.num > 0 ? av_q2d(stream.frame_rate) : 0;
    }
    return static_cast<double>(num_frames() - 1) / span(stream);
}

double VideoIndex::usual_step(const Stream& stream) const {
    if (has_stated_rate(stream)) {
        return stream.frame_rate.num > 0 ? 1 / av_q2d(stream.frame_rate) : 0;
    }
    std::vector<double> steps;
    for (std::size_t frame = 1; frame < num_frames(); ++frame) {
        steps.push_back(seconds(frame, stream) - seconds(frame - 1, stream));
    }
    const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
    std::ranges::nth_element(steps, middle);
    return *middle;
}

VideoScan scan_video(Container& container, int stream, const DecodeOptions& options) {
    FileEnds ends;
    VideoIndex index = VideoIndex::scan(container, stream, ends);
    if (!ends.damage.empty()) {
        std::size_t whole = first_undecodable(container, stream, options, index, index.num_packets());
        if (!index.timed()) {
            // The last ones may come out of the decoder in place of others that are missing.
            const int held_back = container.stream(stream)->parameters->video_delay;
            whole -= std::min(whole, static_cast<std::size_t>(std::max(held_back, 0)));
        }
        index = index.up_to(whole, complete_until(index, ends, *container.stream(stream), whole));
        if (index.num_frames() == 0) {
            throw MediaError(ends.damage);
        }
    }
    if (may_lack_beginning(index, *container.stream(stream), ends.begins_with_key)) {
        ContainerFeed feed(container, stream, index);
        index = without_lost(index, feed, container.stream(stream), options);
    }
    return {std::move(index), std::move(ends.damage)};
}

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
