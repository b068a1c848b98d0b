#include "ffmpeg/encoder_context.h"

#include <cstring>
#include <new>
#include <string_view>

#include "ffmpeg/keep_scheduling.h"

namespace spdl {
namespace {

// Whether an encoder that has got no frame waits for a packet when it is told that none follows, and when it is freed.
bool waits_without_frames(const AVCodec& encoder) {
    return std::string_view(encoder.name) == "libsvtav1";
}

// Returns a frame of zeros, or null if there is no memory.
FramePtr blank_frame(const AVCodecContext& context) {
    FramePtr frame(av_frame_alloc());
    if (!frame) {
        return nullptr;
    }
    frame->format = context.pix_fmt;
    frame->width = context.width;
    frame->height = context.height;
    frame->pts = 0;
    if (av_frame_get_buffer(frame.get(), 0) < 0) {
        return nullptr;
    }
    for (const AVBufferRef* const plane : frame->buf) {
        if (plane != nullptr) {
            std::memset(plane->data, 0, plane->size);
        }
    }
    return frame;
}

}  // namespace

EncoderContext::EncoderContext(const AVCodec& encoder) : encoder_(encoder), context_(avcodec_alloc_context3(&encoder)) {
    if (!context_) {
        throw std::bad_alloc();
    }
}

EncoderContext::~EncoderContext() {
    if (!opened_ || has_frames_ || !waits_without_frames(encoder_)) {
        return;
    }
    const FfmpegLog log;
    if (const FramePtr frame = blank_frame(*context_)) {
        avcodec_send_frame(context_.get(), frame.get());
    }
}

void EncoderContext::open(LibavOptions& options, const FfmpegLog& log, const char* what) {
    {
        const KeepScheduling kept;
        log.check(avcodec_open2(context_.get(), &encoder_, options.get()), what);
    }
    opened_ = true;
    options.check_all_used("encoder", encoder_.name);
}

int EncoderContext::send(const AVFrame& frame) {
    const int code = avcodec_send_frame(context_.get(), &frame);
    has_frames_ = has_frames_ || code >= 0;
    return code;
}

int EncoderContext::finish() {
    return has_frames_ ? avcodec_send_frame(context_.get(), nullptr) : AVERROR_EOF;
}

}  // namespace spdl
