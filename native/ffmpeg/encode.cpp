#include "ffmpeg/encode.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "core/errors.h"
#include "ffmpeg/frames.h"

namespace spdl {
namespace {

// Whether an encoder without any frame waits for a packet when its input ends, and when it is freed.
bool waits_without_frames(const AVCodec& encoder) {
    return std::string_view(encoder.name) == "libsvtav1";
}

// Returns a frame of zeros, or null without memory.
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

constexpr AVRational kTimeBase{1, 25};

const AVCodec& find_encoder(const std::string& name) {
    const AVCodec* const encoder = avcodec_find_encoder_by_name(name.c_str());
    if (encoder == nullptr) {
        throw MediaError("FFmpeg has no encoder \"" + name + "\". " + remedy_for_missing_part());
    }
    if (encoder->type != AVMEDIA_TYPE_VIDEO) {
        throw MediaError("the encoder \"" + name + "\" does not encode pictures");
    }
    return *encoder;
}

// The list ends with AV_PIX_FMT_NONE. Null if the encoder does not tell.
const AVPixelFormat* pixel_formats(const AVCodec& encoder) {
#if LIBAVCODEC_VERSION_INT >= AV_VERSION_INT(61, 13, 100)
    const void* formats = nullptr;
    avcodec_get_supported_config(nullptr, &encoder, AV_CODEC_CONFIG_PIX_FORMAT, 0, &formats, nullptr);
    return static_cast<const AVPixelFormat*>(formats);
#else
    return encoder.pix_fmts;
#endif
}

// Returns the format that the encoder has to be given: of those that it takes, the one without more bits than needed.
std::optional<AVPixelFormat> encoded_format(const AVCodec& encoder, AVPixelFormat format) {
    const AVPixelFormat* const formats = pixel_formats(encoder);
    if (formats == nullptr) {
        return format;
    }
    std::optional<AVPixelFormat> best;
    const auto bits = [](AVPixelFormat taken) { return av_get_bits_per_pixel(av_pix_fmt_desc_get(taken)); };
    for (const AVPixelFormat* taken = formats; *taken != AV_PIX_FMT_NONE; ++taken) {
        if (*taken == format) {
            return format;
        }
        if (repacks(format, *taken) && (!best || bits(*taken) < bits(*best))) {
            best = *taken;
        }
    }
    return best;
}

AlignedBuffer copy(const std::uint8_t* data, int size) {
    AlignedBuffer bytes(static_cast<std::size_t>(size));
    std::memcpy(bytes.data(), data, bytes.size());
    return bytes;
}

// A file that libav writes into memory.
class MemoryOutput : NonCopyable {
  public:
    MemoryOutput() { require_memory(avio_open_dyn_buf(&context_) >= 0); }
    ~MemoryOutput() { discard(); }

    AVIOContext* context() { return context_; }

    AlignedBuffer take() {
        std::uint8_t* data = nullptr;
        const int size = avio_get_dyn_buf(context_, &data);
        return copy(data, size);
    }

  private:
    void discard() {
        std::uint8_t* data = nullptr;
        avio_close_dyn_buf(context_, &data);
        av_free(data);
    }

    AVIOContext* context_ = nullptr;
};

struct FreeOutput {
    void operator()(AVFormatContext* context) const noexcept { avformat_free_context(context); }
};
using OutputPtr = std::unique_ptr<AVFormatContext, FreeOutput>;

OutputPtr make_container(const std::string& muxer, const FfmpegLog& log, const char* what) {
    if (muxer.empty()) {
        return nullptr;
    }
    if (av_guess_format(muxer.c_str(), nullptr, nullptr) == nullptr) {
        throw MediaError("FFmpeg has no muxer \"" + muxer + "\". " + remedy_for_missing_part());
    }
    AVFormatContext* container = nullptr;
    log.check(avformat_alloc_output_context2(&container, nullptr, muxer.c_str(), nullptr), what);
    return OutputPtr(container);
}

AlignedBuffer wrap(AVFormatContext& container, const AVCodecContext& encoder, AVPacket& packet, const FfmpegLog& log,
                   const char* what) {
    MemoryOutput output;
    container.pb = output.context();
    container.flags |= AVFMT_FLAG_CUSTOM_IO | AVFMT_FLAG_BITEXACT;
    AVStream* const stream = avformat_new_stream(&container, nullptr);
    require_memory(stream != nullptr);
    log.check(avcodec_parameters_from_context(stream->codecpar, &encoder), what);
    stream->time_base = kTimeBase;
    log.check(avformat_write_header(&container, nullptr), what);
    packet.stream_index = 0;
    log.check(av_write_frame(&container, &packet), what);
    log.check(av_write_trailer(&container), what);
    return output.take();
}

PacketPtr encode(EncoderContext& encoder, const AVFrame& frame, const FfmpegLog& log, const char* what) {
    PacketPtr packet = make_packet();
    log.check(encoder.send(frame), what);
    int code = avcodec_receive_packet(encoder.get(), packet.get());
    if (code == AVERROR(EAGAIN)) {
        // An encoder that looks ahead returns the packet when it knows that nothing follows.
        log.check(encoder.finish(), what);
        code = avcodec_receive_packet(encoder.get(), packet.get());
    }
    log.check(code, what);
    return packet;
}

}  // namespace

EncoderContext::EncoderContext(const AVCodec& encoder) : encoder_(encoder), context_(avcodec_alloc_context3(&encoder)) {
    require_memory(context_ != nullptr);
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

void EncoderContext::open(const OptionList& options, const FfmpegLog& log, const char* what) {
    LibavOptions given(options);
    {
        const KeepScheduling kept;
        log.check(avcodec_open2(context_.get(), &encoder_, given.get()), what);
    }
    opened_ = true;
    given.check_all_used("encoder", encoder_.name);
}

int EncoderContext::send(const AVFrame& frame) {
    const int code = avcodec_send_frame(context_.get(), &frame);
    has_frames_ = has_frames_ || code >= 0;
    return code;
}

int EncoderContext::finish() {
    return has_frames_ ? avcodec_send_frame(context_.get(), nullptr) : AVERROR_EOF;
}

bool encoder_takes(const std::string& encoder, AVPixelFormat format) {
    return encoded_format(find_encoder(encoder), format).has_value();
}

AlignedBuffer encode_picture(const AVFrame& picture, const EncodeOptions& options) {
    const FfmpegLog log;
    const AVCodec& codec = find_encoder(options.encoder);
    const std::string tried = "cannot encode the image with \"" + options.encoder + "\"";
    const char* const what = tried.c_str();
    const auto format = static_cast<AVPixelFormat>(picture.format);
    const AVPixelFormat taken = encoded_format(codec, format).value_or(format);

    // The picture is always copied: encoders may read a little beyond a row, which is safe only in libav's own frames.
    const FramePtr frame = make_frame();
    frame->format = taken;
    frame->width = picture.width;
    frame->height = picture.height;
    log.check(av_frame_get_buffer(frame.get(), 0), what);
    repack(picture, *frame);
    frame->pts = 0;

    const OutputPtr container = make_container(options.muxer, log, what);
    EncoderContext encoder(codec);
    encoder->width = frame->width;
    encoder->height = frame->height;
    encoder->pix_fmt = taken;
    encoder->time_base = kTimeBase;
    // Images are encoded in parallel by the caller, one thread each.
    encoder->thread_count = 1;
    if (codec.id == AV_CODEC_ID_MJPEG) {
        encoder->color_range = AVCOL_RANGE_JPEG;
        frame->color_range = AVCOL_RANGE_JPEG;
    }
    if (container && (container->oformat->flags & AVFMT_GLOBALHEADER) != 0) {
        encoder->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
    }
    encoder.open(options.options, log, what);
    // The encoder reads it from each frame if the flag qscale is set.
    frame->quality = encoder->global_quality;
    const PacketPtr packet = encode(encoder, *frame, log, what);
    return container ? wrap(*container, *encoder, *packet, log, what) : copy(packet->data, packet->size);
}

}  // namespace spdl
