#pragma once

#include "ffmpeg/ffmpeg_log.h"
#include "ffmpeg/libav.h"
#include "ffmpeg/libav_options.h"

namespace spdl {

// Owns one of FFmpeg's encoders, and lets go of it so that it does not wait for ever. One thread at a time.
class EncoderContext {
  public:
    explicit EncoderContext(const AVCodec& encoder);
    EncoderContext(const EncoderContext&) = delete;
    EncoderContext& operator=(const EncoderContext&) = delete;
    ~EncoderContext();

    AVCodecContext& operator*() const { return *context_; }
    AVCodecContext* operator->() const { return context_.get(); }
    [[nodiscard]] AVCodecContext* get() const { return context_.get(); }

    // Opens it. Raises what `log` tells, with `what` in front, and if options are left that it does not know.
    void open(LibavOptions& options, const FfmpegLog& log, const char* what);

    // Takes the next frame. Returns a code of libav's.
    int send(const AVFrame& frame);

    // Says that no more frames come. Returns a code of libav's; AVERROR_EOF if there was no frame, so that there are no
    // packets either.
    int finish();

  private:
    const AVCodec& encoder_;
    CodecContextPtr context_;
    bool opened_ = false;
    bool has_frames_ = false;
};

}  // namespace spdl
