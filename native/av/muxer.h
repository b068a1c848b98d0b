#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "av/packets.h"
#include "av/samples.h"
#include "av/scaling.h"
#include "core/files.h"
#include "core/geometry.h"
#include "ffmpeg/byte_io.h"
#include "ffmpeg/decode.h"
#include "ffmpeg/encode.h"
#include "ffmpeg/filters.h"
#include "ffmpeg/libav.h"
#include "image/load/one_image.h"
#include "image/plan/image_plan.h"
#include "image/planes/plane_kernels.h"
#include "media/options.h"

namespace spdl {

// The frames for an encoder, and its other settings. -1 and "" leave a setting to the encoder.
struct EncoderSettings {
    std::string encoder;  // FFmpeg's name; "": the usual one for the file format.
    OptionList options;   // The encoder's, by FFmpeg's names.
    std::int64_t bit_rate = -1;
    int compression_level = -1;
    int qscale = -1;
};

struct AudioEncodeOptions : EncoderSettings {
    int num_channels = 0;
    int sample_rate = 0;
    std::string sample_format;
};

struct VideoEncodeOptions : EncoderSettings {
    int width = 0;
    int height = 0;
    int frame_rate[2] = {0, 1};  // 0/1: not given.
    std::string pixel_format;
    int gop_size = -1;
    int max_b_frames = -1;
    std::string colorspace;
    std::string color_primaries;
    std::string color_trc;
};

// Returns the elements, written by `name`, with commas between them.
template <typename T, typename Name>
std::string listed(const std::vector<T>& elements, const Name& name) {
    std::string text;
    for (const T& element : elements) {
        text += (text.empty() ? "" : ", ") + std::string(name(element));
    }
    return text;
}

// One of FFmpeg's encoders: frames go in, packets come out. One thread at a time. All errors are MediaErrors.
class StreamEncoder {
  public:
    // `configure` sets what the encoder must know of the frames. `global_header` puts what a decoder must know in front
    // of the file, not into packets.
    StreamEncoder(const AVCodec& encoder, Medium medium, const EncoderSettings& settings, bool global_header,
                  const std::function<void(AVCodecContext&)>& configure);

    // Takes the next frame, whose time is in units of the stream's time base, and appends the packets that are
    // finished.
    void add(FramePtr frame, std::vector<PacketPtr>& packets);

    // Says that no more frames come, and appends the rest of the packets. Does nothing the second time.
    void flush(std::vector<PacketPtr>& packets);

    // Throws if the encoder was flushed, and takes no more frames.
    void check_takes_more() const;

    // Returns the description of the stream that the packets belong to.
    [[nodiscard]] const std::shared_ptr<const Stream>& stream() const { return stream_; }

    [[nodiscard]] const AVCodecContext& context() const { return *context_; }

    // Returns the text for messages, such as "cannot encode with \"mpeg4\"".
    [[nodiscard]] const std::string& what() const { return what_; }

  private:
    void receive(std::vector<PacketPtr>& packets);

    std::string what_;
    EncoderContext context_;
    std::shared_ptr<const Stream> stream_;
    bool flushed_ = false;
};

// Encodes sound of one form, in frames of any length. One thread at a time. All errors are MediaErrors.
class AudioEncoder {
  public:
    AudioEncoder(const AudioEncodeOptions& options, const AVOutputFormat& format);

    // Takes the next frames, and appends the packets that are finished. A frame without a time follows the last one.
    void add(const std::vector<FramePtr>& frames, AVRational time_base, std::vector<PacketPtr>& packets);

    void flush(std::vector<PacketPtr>& packets);

    // Returns how many samples each packet holds; 0 if that is free.
    [[nodiscard]] int frame_size() const;

    [[nodiscard]] const StreamEncoder& encoder() const { return *encoder_; }

  private:
    void check(const AVFrame& frame) const;
    [[nodiscard]] std::int64_t time_of(const AVFrame& frame, AVRational time_base) const;
    FramePtr prepare(const AVFrame& frame, AVRational time_base);

    AudioEncodeOptions options_;
    AVSampleFormat given_;
    AVSampleFormat taken_;
    std::optional<StreamEncoder> encoder_;
    std::optional<FilterChain> chain_;
    SampleQueue queue_;
    std::int64_t next_time_ = 0;  // The end of the frames so far, in samples.
    bool started_ = false;
};

// Encodes pictures of one size and pixel format. One thread at a time. All errors are MediaErrors.
class VideoEncoder {
  public:
    VideoEncoder(const VideoEncodeOptions& options, const AVOutputFormat& format);

    // Takes the next frames, and appends the packets that are finished. Times are rounded to the frame rate; a frame
    // without a time is shown after the last one.
    void add(const std::vector<FramePtr>& frames, AVRational time_base, std::vector<PacketPtr>& packets);

    void flush(std::vector<PacketPtr>& packets) { encoder_->flush(packets); }

    [[nodiscard]] const StreamEncoder& encoder() const { return *encoder_; }

  private:
    void check(const AVFrame& frame) const;
    FramePtr convert(const AVFrame& given);
    std::int64_t time_of(const AVFrame& frame, AVRational time_base);

    VideoEncodeOptions options_;
    AVPixelFormat given_;
    AVPixelFormat taken_;
    std::optional<StreamEncoder> encoder_;
    std::optional<FilterChain> chain_;
    std::int64_t next_time_ = 0;
    bool started_ = false;
};

// A file of audio and video streams that is being written. One thread at a time. All errors are MediaErrors.
class Muxer {
  public:
    // `format` is FFmpeg's name of the file format; if it is "", `file_name` tells it by its suffix.
    Muxer(const std::string& format, const std::string& file_name);

    // Returns the description of the file format, which selects the encoders.
    [[nodiscard]] const AVOutputFormat& format() const { return *context_->oformat; }

    // Adds a stream for packets of such a stream, and returns its index. Not after open().
    int add_stream(const Stream& stream);

    // Throws if open() would not begin.
    void check_new() const;

    // Writes the beginning of the file. `options` are for FFmpeg's muxer.
    void open(std::unique_ptr<ByteSink> sink, const OptionList& options);

    // Writes packets of one stream. They may be kept until earlier packets of other streams have come.
    void write(int stream, const PacketList& packets);

    // Writes all packets that were kept.
    void flush();

    // Writes the end of the file. Without it the file is not complete.
    void close();

    [[nodiscard]] bool is_open() const { return state_ == State::kOpen; }

  private:
    enum class State { kNew, kOpen, kClosed };

    struct FreeOutput {
        void operator()(AVFormatContext* context) const noexcept { avformat_free_context(context); }
    };

    [[nodiscard]] std::string what() const;
    void check_open() const;

    std::unique_ptr<ByteSink> sink_;
    std::unique_ptr<Output> output_;
    std::unique_ptr<AVFormatContext, FreeOutput> context_;
    State state_ = State::kNew;
};

// Writes the pictures of a video to memory: resized, turned and normalised, as images are. Unless the options ask for
// exact ones, planes of YUV are resized before their conversion to RGB, and FFmpeg scales all other pictures. It
// belongs to one thread.
class PictureWriter {
  public:
    // `rotation` turns pictures clockwise by that many degrees if the options ask for upright ones. The options must
    // live as long as the writer.
    PictureWriter(const LoadOptions& options, int rotation);

    // Opens the next picture, which must not change until it is written. Returns the size that it is written with.
    Size open(const AVFrame& frame);

    // Writes the open picture.
    void write(std::uint8_t* to);

  private:
    [[nodiscard]] bool open_planes(const AVFrame& frame, const Orientation& orientation);
    [[nodiscard]] FramePtr scaled(const AVFrame& frame, const Orientation& orientation);

    const LoadOptions& options_;
    int rotation_;
    ImagePlan plan_;
    std::optional<YuvImage> planes_;  // If the open picture is resized as planes.
    VideoScaler scaler_;
    FfmpegDecoder decoder_;
    ThreadScratch& scratch_;
};

}  // namespace spdl
