#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "ffmpeg/libav.h"
#include "media/options.h"

namespace spdl {

enum class Medium { kAudio, kVideo };

constexpr const char* medium_name(Medium medium) {
    return medium == Medium::kAudio ? "audio" : "video";
}

// The times in packets: the display time of each frame, only the time of decoding, or nothing reliable. If they were
// counted, the k-th is the display time of the k-th frame.
enum class Times : std::uint8_t { kNone = 0, kShown = 1, kDecoded = 2, kCounted = 3 };

// The properties of a stream that are known without decoding it. Immutable once it is made.
struct Stream {
    Medium medium = Medium::kVideo;
    int index = 0;  // In its container.
    std::shared_ptr<const AVCodecParameters> parameters;
    AVRational time_base{0, 1};
    AVRational frame_rate{0, 1};          // 0/1 if it is not known.
    std::int64_t start = AV_NOPTS_VALUE;  // In units of the time base, as the two below.
    std::int64_t duration = AV_NOPTS_VALUE;
    std::int64_t num_frames = 0;  // As the container says; 0 if it does not.
    Times times = Times::kShown;
    bool tells_keys = true;       // Whether packets say that decoding can begin with them. Otherwise all seem to do.
    bool makes_up_times = false;  // Whether the demuxer makes up times that packets do not have.
    bool counts_samples = false;  // Whether the times of packets are samples, as SampleClock tells them.
    int rotation = 0;             // The degrees, clockwise, by which a viewer turns the picture: 0, 90, 180 or 270.

    // Returns the name for messages, such as "video stream 0 (h264)".
    [[nodiscard]] std::string describe() const;

    [[nodiscard]] double seconds(std::int64_t time) const { return static_cast<double>(time) * av_q2d(time_base); }
};

// Returns the same stream with other parameters.
Stream with(const Stream& stream, CodecParametersPtr parameters);

// Returns the same stream, whose packets say something else of times.
std::shared_ptr<const Stream> with(const std::shared_ptr<const Stream>& stream, Times times);

CodecParametersPtr copy_parameters(const AVCodecParameters& parameters);

// Returns whether a format is a stream without any container, which has neither times nor an index. FFmpeg makes up
// when frames are decoded, and from that for some of them when they are shown.
bool is_raw(const AVInputFormat& format);

// Returns the description of one of the container's streams, which must be audio or video.
Stream describe_stream(AVFormatContext& container, int index);

// Packets of one stream in the order in which they are decoded. They may begin before the window, since decoding must
// begin at a packet that needs no other.
struct PacketList {
    std::shared_ptr<const Stream> stream;
    std::vector<PacketPtr> packets;
    TimeWindow window;

    [[nodiscard]] std::size_t bytes() const;

    // Returns when the frames within the window are shown, in that order. With `all`, what all packets say, in the
    // order in which they are decoded.
    [[nodiscard]] std::vector<std::int64_t> times(bool all) const;

    // Returns another list that shares the data.
    [[nodiscard]] PacketList clone() const;
};

// Returns whether a packet makes no frame that is shown.
bool is_hidden(const AVPacket& packet, AVCodecID codec);

// Returns whether a packet holds nothing, which decoders would take for the end.
bool is_empty(const AVPacket& packet);

// Returns when a packet is shown, in units of its stream's time base; AV_NOPTS_VALUE if it does not say.
std::int64_t time_of(const AVPacket& packet);

// Return whether a time is before the start of a window, and whether it is not before the end. Both are false for a
// time that is not known.
bool is_before(std::int64_t time, AVRational time_base, const TimeWindow& window);
bool is_after(std::int64_t time, AVRational time_base, const TimeWindow& window);

// Returns the first sample, counted from time 0, that is not before `moment`.
std::int64_t sample_at(const Moment& moment, int rate);

// Returns how long a frame may be decoded before it is shown, in units of the stream's time base.
std::int64_t delay_of(const Stream& stream);

// Returns whether a packet of a stream, and with it all that follow, hold nothing that is shown within a window.
bool is_behind(const AVPacket& packet, const Stream& stream, const TimeWindow& window);

// Returns whether the decoder of a sound depends on all that came before, so that a part is decoded from the beginning.
bool depends_on_all(const AVCodecParameters& sound);

// Keeps the last packets of sound: as many as must be decoded before what follows them, since decoders build on what
// came before.
class LastPackets {
  public:
    explicit LastPackets(const AVCodecParameters& sound);

    // Returns how many samples there are in them, if there were that many.
    [[nodiscard]] std::int64_t least() const { return least_; }

    // Takes the next packet, whose duration is `samples`.
    void add(PacketPtr packet, std::int64_t samples);

    // Takes out the first one; null if none exists.
    PacketPtr take();

  private:
    struct Kept {
        PacketPtr packet;
        std::int64_t samples;
    };

    std::int64_t least_;
    std::int64_t samples_ = 0;
    std::deque<Kept> packets_;
};

// FFmpeg's bit-stream filters, which change packets without decoding them. One thread at a time. All errors are
// MediaErrors.
class BitStreamFilter {
  public:
    // `description` is a list of filters in FFmpeg's own syntax.
    BitStreamFilter(std::shared_ptr<const Stream> stream, const std::string& description);

    // Takes a packet, and appends those that are finished.
    void add(PacketPtr packet, std::vector<PacketPtr>& finished);

    // Says that no more packets come, and appends the rest. After it the filter may begin again.
    void flush(std::vector<PacketPtr>& finished);

    // Returns the stream that the finished packets belong to.
    [[nodiscard]] std::shared_ptr<const Stream> output() const { return output_; }

  private:
    void receive(std::vector<PacketPtr>& finished);

    std::string what_;
    BsfContextPtr context_;
    std::shared_ptr<const Stream> output_;
};

}  // namespace spdl
