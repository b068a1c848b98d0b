#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "av/packets.h"
#include "av/scaling.h"
#include "core/files.h"
#include "core/geometry.h"
#include "ffmpeg/byte_io.h"
#include "ffmpeg/decode.h"
#include "ffmpeg/libav.h"
#include "image/load/one_image.h"
#include "image/plan/image_plan.h"
#include "image/planes/plane_kernels.h"
#include "media/options.h"

namespace spdl {

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
