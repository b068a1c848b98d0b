#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ffmpeg/libav.h"

namespace spdl {

enum class Medium { kAudio, kVideo };

constexpr const char* medium_name(Medium medium) {
    return medium == Medium::kAudio ? "audio" : "video";
}

// What packets say of the times when frames are shown: when the frame of each is, only when each is decoded, or nothing
// that can be relied on. Of those that were counted, the k-th says when the k-th frame is shown.
enum class Times : std::uint8_t { kNone = 0, kShown = 1, kDecoded = 2, kCounted = 3 };

// What is known of a stream without decoding it. Immutable once it is made.
struct Stream {
    Medium medium = Medium::kVideo;
    int index = 0;  // In its container.
    CodecParametersPtr parameters;
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

// Returns whether a format is that of a stream without any container, which has neither times nor an index. FFmpeg
// makes up when frames are decoded, and from that for some of them when they are shown.
bool is_raw(const AVInputFormat& format);

// Returns what `container` says of one of its streams, which must be audio or video.
Stream describe_stream(AVFormatContext& container, int index);

}  // namespace spdl
