#include "av/video_index.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "av/key_frame.h"
#include "av/shown_times.h"
#include "core/media_error.h"
#include "ffmpeg/times.h"

namespace spdl {
namespace {

// Collects what packets tell.
struct Packets {
    explicit Packets(const Stream& of) : stream(of), reordered(of.parameters->video_delay > 0) {}

    const Stream& stream;
    bool reordered;
    bool timed = true;
    std::vector<std::int64_t> times;
    std::vector<std::uint8_t> keys;
    std::vector<std::uint8_t> hidden;

    void add(const AVPacket& packet, bool hide) {
        times.push_back(time_of(packet));
        // The first one has nothing before it to begin with.
        keys.push_back(is_key(packet, stream) || (keys.empty() && (packet.flags & AV_PKT_FLAG_KEY) != 0));
        hidden.push_back(hide || is_hidden(packet, stream.parameters->codec_id));
        timed = timed && times.back() != AV_NOPTS_VALUE && (packet.pts != AV_NOPTS_VALUE || !reordered) &&
                stream.tells_times;
    }

    VideoIndex index() { return {std::move(times), std::move(keys), std::move(hidden), timed}; }
};

// Returns the rate of frames that can only be counted.
AVRational counted_rate(const Stream& stream) {
    constexpr AVRational kUsual{25, 1};  // As FFmpeg assumes it.
    return stream.frame_rate.num > 0 ? stream.frame_rate : kUsual;
}

}  // namespace

VideoIndex::VideoIndex(std::vector<std::int64_t> times, std::vector<std::uint8_t> keys,
                       std::vector<std::uint8_t> hidden, bool timed, std::int64_t begin)
    : times_(std::move(times)),
      keys_(std::move(keys)),
      hidden_(std::move(hidden)),
      by_time_(times_.size()),
      begin_(begin) {
    check_time(begin);
    for (const std::int64_t each : times_) {
        check_time(each);
    }
    const auto time = [&](std::size_t position) { return times_[position]; };
    std::iota(by_time_.begin(), by_time_.end(), std::size_t{0});
    if (std::ranges::find(times_, AV_NOPTS_VALUE) == times_.end()) {
        std::ranges::stable_sort(by_time_, {}, time);
        timed_ = timed && std::ranges::adjacent_find(by_time_, {}, time) == by_time_.end();
    } else {
        timed_ = false;
    }
    for (const std::size_t position : by_time_) {
        if (hidden_[position] == 0) {
            shown_.push_back(position);
        }
    }
}

VideoIndex VideoIndex::scan(Container& container, int stream, FileEnds& ends) {
    container.select({stream});
    container.rewind();
    const std::shared_ptr<const Stream> described = container.stream(stream);
    Packets found(*described);
    try {
        while (const PacketPtr packet = container.read()) {
            if (found.times.empty()) {
                ends.begins_with_key = is_key(*packet, *described);
                container.leave_out_contents(stream);
            }
            found.add(*packet, false);
            ends.dts.push_back(packet->dts);
            ends.cut_packet = (packet->flags & AV_PKT_FLAG_CORRUPT) != 0;
        }
        if (ends.cut_packet) {
            ends.damage = "cannot read the file: it ends in the middle of a packet";
        }
    } catch (const DamageError& error) {
        ends.damage = error.what();
    }
    return found.index();
}

VideoIndex VideoIndex::without(const std::vector<std::size_t>& positions, std::int64_t begin) const {
    std::vector<std::uint8_t> hidden = hidden_;
    for (const std::size_t position : positions) {
        hidden[position] = 1;
    }
    return {times_, keys_, std::move(hidden), timed_, begin};
}

VideoIndex VideoIndex::up_to(std::size_t position, std::int64_t time) const {
    std::vector<std::uint8_t> hidden = hidden_;
    for (std::size_t packet = 0; packet < times_.size(); ++packet) {
        hidden[packet] = hidden[packet] != 0 || packet >= position || (timed_ && times_[packet] > time) ? 1 : 0;
    }
    return {times_, keys_, std::move(hidden), timed_, begin_};
}

VideoIndex VideoIndex::of(const PacketList& packets) {
    const Stream& stream = *packets.stream;
    Packets found(stream);
    const std::vector<std::int64_t> times = shown_times(packets);
    for (std::size_t i = 0; i < times.size(); ++i) {
        const bool outside = is_before(times[i], stream.time_base, packets.window) ||
                             is_after(times[i], stream.time_base, packets.window);
        found.add(*packets.packets[i], outside);
    }
    return found.index();
}

std::int64_t VideoIndex::counted_from(const Stream& stream) const {
    if (begin_ != AV_NOPTS_VALUE) {
        return begin_;
    }
    return stream.start != AV_NOPTS_VALUE ? stream.start : 0;
}

std::int64_t VideoIndex::shown_at(std::size_t frame, const Stream& stream) const {
    if (timed_) {
        return time(frame);
    }
    return counted_from(stream) +
           rescale_time(static_cast<std::int64_t>(frame), av_inv_q(counted_rate(stream)), stream.time_base);
}

double VideoIndex::seconds(std::size_t frame, const Stream& stream) const {
    if (timed_) {
        return stream.seconds(time(frame));
    }
    return stream.seconds(counted_from(stream)) + static_cast<double>(frame) / av_q2d(counted_rate(stream));
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
