#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "av/container.h"
#include "av/packets.h"
#include "core/non_copyable.h"
#include "ffmpeg/libav.h"
#include "media/options.h"

namespace spdl {

// The times of a video's packet, in units of its stream's time base.
struct PacketTimes {
    std::int64_t shown = AV_NOPTS_VALUE;    // When its frame is shown,
    std::int64_t decoded = AV_NOPTS_VALUE;  // and when it is decoded.
    std::int64_t duration = 0;
    bool key = false;
    bool hidden = false;  // Whether its frame is not shown.
};

PacketTimes times_in(const AVPacket& packet, const Stream& stream);

// Counts frames in the order in which they are shown: the k-th is shown when the k-th packet is decoded, and all of
// them as much later as the first packet says. If packets do not say when they are decoded, the stream's rate counts.
class FrameCounter {
  public:
    // The stream must live as long as this object.
    explicit FrameCounter(const Stream& stream) : stream_(&stream) {}

    // Takes the next packet that makes a frame, in the order in which packets are decoded.
    void add(const PacketTimes& packet);

    // Returns when the next frame is shown.
    std::int64_t next();

  private:
    [[nodiscard]] std::int64_t counted() const;

    const Stream* stream_;
    std::deque<std::int64_t> waiting_;    // What the packets say whose turn is not there yet: when they are decoded.
    std::int64_t delay_ = 0;              // How long after its packet is decoded a frame is shown.
    std::int64_t told_ = AV_NOPTS_VALUE;  // When the last frame is shown of which a packet tells,
    std::int64_t since_ = 0;              // and how many have followed it.
    std::int64_t last_ = AV_NOPTS_VALUE;  // What next() has returned.
    std::int64_t step_ = 0;               // The duration of a packet.
};

// The start of a file's packets, and its end if it is cut off.
struct FileEnds {
    bool begins_with_key = false;   // Whether decoding can begin with the first packet.
    std::string damage;             // Why it ends before its end; "" for a whole file.
    std::vector<std::int64_t> dts;  // When each packet before that is decoded.
};

// The place of the frames of a video: what one look at all packets tells, without decoding any. Immutable once
// complete.
//
// A packet's position is its place in the order in which packets are decoded. A frame's index is its place in the order
// in which frames are shown.
class VideoIndex {
  public:
    // `times`, `places` and `keys` give each packet's display time, see ShownTimes, its place in the file, and whether
    // decoding can begin there; if frames are counted, whether it can at the k-th frame that is shown. `timed` says
    // whether each time belongs to the packet's own frame. `joined` is what Container says, and `told` what ShownTimes
    // does.
    VideoIndex(std::vector<std::int64_t> times, std::vector<std::int64_t> places, std::vector<std::uint8_t> keys,
               std::vector<std::uint8_t> hidden, bool timed, bool joined, bool told = false);

    // Reads all packets of a stream. The container is then at its end, or where the file is damaged or cut off.
    static VideoIndex scan(Container& container, int stream, FileEnds& ends);

    // Returns an index in which the frames of the packets from `position` on are hidden, and those that are shown after
    // `time`.
    [[nodiscard]] VideoIndex up_to(std::size_t position, std::int64_t time) const;

    // Returns an index in which the frames of these packets are hidden, too. They are the first that are shown. If
    // frames without known times are counted, the remaining ones have the first of the times.
    [[nodiscard]] VideoIndex without(const std::vector<std::size_t>& positions) const;

    // Returns the index of the frames within the window of the packets. For `in_parts`, see shown_times().
    static VideoIndex of(const PacketList& packets, bool in_parts = false);

    [[nodiscard]] std::size_t num_frames() const { return shown_.size(); }
    [[nodiscard]] std::size_t num_packets() const { return times_.size(); }
    [[nodiscard]] const std::vector<std::int64_t>& times() const { return times_; }
    [[nodiscard]] const std::vector<std::int64_t>& places() const { return places_; }
    [[nodiscard]] const std::vector<std::uint8_t>& keys() const { return keys_; }
    [[nodiscard]] const std::vector<std::uint8_t>& hidden() const { return hidden_; }

    // Returns whether every packet has a unique time. Otherwise a frame can only be found by counting from the
    // beginning.
    [[nodiscard]] bool timed() const { return timed_; }

    // Returns whether the file consists of several, each with its own clock, so that only reading it through leads to a
    // packet.
    [[nodiscard]] bool joined() const { return joined_; }

    // Has a packet say what the index does.
    void settle(AVPacket& packet, std::size_t position) const;

    // Returns the stream of such packets.
    [[nodiscard]] std::shared_ptr<const Stream> settled(const std::shared_ptr<const Stream>& stream) const;

    // Returns when a frame is shown, in units of the stream's time base.
    [[nodiscard]] std::int64_t time(std::size_t frame) const { return times_[shown_[frame]]; }

    // Returns when a frame is shown, in seconds.
    [[nodiscard]] double seconds(std::size_t frame, const Stream& stream) const { return stream.seconds(time(frame)); }

    // Returns the average number of frames per second: the one that the file says if its frames come at that rate;
    // 0 if nothing is known.
    [[nodiscard]] double rate(const Stream& stream) const;

    // Returns for how many seconds a frame is shown: the median, so that pauses do not count; 0 if nothing is known.
    [[nodiscard]] double usual_step(const Stream& stream) const;

    // Returns the position of a frame's packet.
    [[nodiscard]] std::size_t position(std::size_t frame) const { return shown_[frame]; }

    // Returns the position from which a frame can be decoded, at least `keys_back` key frames before it.
    [[nodiscard]] std::size_t start(std::size_t frame, int keys_back) const;

    // Returns the position of the packet that is shown at `time`; num_packets() if none exists.
    [[nodiscard]] std::size_t find(std::int64_t time) const;

    // Returns the last frame that is shown at `time` or before; num_frames() if the first one is later.
    [[nodiscard]] std::size_t frame_at(std::int64_t time) const;

  private:
    [[nodiscard]] double span(const Stream& stream) const;
    [[nodiscard]] bool has_stated_rate(const Stream& stream) const;

    std::vector<std::int64_t> times_;
    std::vector<std::int64_t> places_;
    std::vector<std::uint8_t> keys_;
    std::vector<std::uint8_t> hidden_;  // Whether a packet's frame is decoded but not shown.
    std::vector<std::size_t> shown_;    // The positions of the frames that are shown, in that order.
    std::vector<std::size_t> by_time_;  // All positions in the order of their times.
    bool timed_;
    bool joined_;
    bool told_;
};

// The readable part of a video, up to damage or the end of a truncated file.
struct VideoScan {
    VideoIndex index;
    std::string damage;  // What reading on said; "" for a whole file.
};

// Reads all packets of a stream. If the file ends early, the frames that can then not be decoded are hidden. Throws
// MediaError if the damage precedes all frames.
VideoScan scan_video(Container& container, int stream, const DecodeOptions& options);

// The source of a video's packets, in the order in which they are decoded.
class PacketFeed : NonCopyable {
  public:
    virtual ~PacketFeed() = default;

    // Goes to a position.
    virtual void seek(std::size_t position) = 0;

    // Returns the next packet; null at the end.
    virtual PacketPtr next() = 0;

    // Returns the position of what next() returned last.
    [[nodiscard]] virtual std::size_t position() const = 0;
};

// The packets of an open file. A container may lead to another place than it says, and pass packets by after it: a
// packet counts only where the index has it, and otherwise the file is read up to it.
class ContainerFeed final : public PacketFeed {
  public:
    // All must live as long as the feed. No other code may use the container in the meantime.
    ContainerFeed(Container& container, int stream, const VideoIndex& index);

    void seek(std::size_t position) override;
    PacketPtr next() override;
    [[nodiscard]] std::size_t position() const override { return position_; }

  private:
    bool try_seek(std::size_t position);
    void begin();
    PacketPtr read();
    PacketPtr read_next();
    [[nodiscard]] bool is_at(const PacketPtr& packet, std::size_t position) const;

    Container& container_;
    int stream_;
    const VideoIndex& index_;
    PacketPtr found_;           // Read to look at it; next() returns it first.
    std::size_t position_ = 0;  // Of the packet that was read last.
    bool known_ = false;        // Whether that is so.
    bool sought_ = false;       // Whether the container went somewhere since its beginning.
};

// Packets in memory.
class ListFeed final : public PacketFeed {
  public:
    // The list must live as long as the feed.
    explicit ListFeed(const PacketList& list) : list_(list) {}

    void seek(std::size_t position) override { next_ = position; }
    PacketPtr next() override;
    [[nodiscard]] std::size_t position() const override { return next_ - 1; }

  private:
    const PacketList& list_;
    std::size_t next_ = 0;
};

}  // namespace spdl
