#pragma once

#include <string>

#include "core/buffer.h"
#include "core/non_copyable.h"
#include "ffmpeg/ffmpeg_log.h"
#include "ffmpeg/libav.h"
#include "media/options.h"

namespace spdl {

// Owns one of FFmpeg's encoders, and lets go of it so that it does not wait forever. One thread at a time.
class EncoderContext : NonCopyable {
  public:
    explicit EncoderContext(const AVCodec& encoder);
    ~EncoderContext();

    AVCodecContext& operator*() const { return *context_; }
    AVCodecContext* operator->() const { return context_.get(); }
    [[nodiscard]] AVCodecContext* get() const { return context_.get(); }

    // Opens it. Raises what `log` tells, with `what` in front, and if options are left that it does not know.
    void open(const OptionList& options, const FfmpegLog& log, const char* what);

    // Takes the next frame. Returns a code of libav's.
    int send(const AVFrame& frame);

    // Says that no more frames come. Returns a libav code; AVERROR_EOF if no frame came, so that no packets come
    // either.
    int finish();

  private:
    const AVCodec& encoder_;
    CodecContextPtr context_;
    bool opened_ = false;
    bool has_frames_ = false;
};

struct EncodeOptions {
    std::string encoder;
    OptionList options;  // The encoder's, by FFmpeg's names.
    std::string muxer;   // Empty: the encoder's output is the file.
};

// Returns whether the encoder takes pixels of this format, or of one that they can be repacked to. Throws MediaError if
// FFmpeg has no encoder of that name.
bool encoder_takes(const std::string& encoder, AVPixelFormat format);

// Returns the picture as a file. Throws MediaError.
AlignedBuffer encode_picture(const AVFrame& picture, const EncodeOptions& options);

}  // namespace spdl
