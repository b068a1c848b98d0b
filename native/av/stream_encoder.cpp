#include "av/stream_encoder.h"

#include <cerrno>
#include <new>
#include <utility>

#include "core/media_error.h"
#include "ffmpeg/ffmpeg_log.h"
#include "ffmpeg/libav_options.h"

namespace spdl {

StreamEncoder::StreamEncoder(const AVCodec& encoder, Medium medium, const EncoderSettings& settings, bool global_header,
                             const std::function<void(AVCodecContext&)>& configure)
    : what_(std::string("cannot encode with \"") + encoder.name + "\""), context_(encoder) {
    const FfmpegLog log;
    // Clips are encoded in parallel by the caller, one thread each.
    context_->thread_count = 1;
    if (settings.bit_rate >= 0) {
        context_->bit_rate = settings.bit_rate;
    }
    if (settings.compression_level >= 0) {
        context_->compression_level = settings.compression_level;
    }
    if (settings.qscale >= 0) {
        context_->flags |= AV_CODEC_FLAG_QSCALE;
        context_->global_quality = settings.qscale * FF_QP2LAMBDA;
    }
    if (global_header) {
        context_->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
    }
    configure(*context_);
    LibavOptions given;
    for (const auto& [key, value] : settings.options) {
        given.set(key.c_str(), value.c_str());
    }
    context_.open(given, log, what_.c_str());

    CodecParametersPtr parameters(avcodec_parameters_alloc());
    if (!parameters || avcodec_parameters_from_context(parameters.get(), context_.get()) < 0) {
        throw std::bad_alloc();
    }
    Stream stream;
    stream.medium = medium;
    stream.parameters = std::move(parameters);
    stream.time_base = context_->time_base;
    stream.frame_rate = medium == Medium::kVideo ? context_->framerate : AVRational{0, 1};
    stream_ = std::make_shared<const Stream>(std::move(stream));
}

void StreamEncoder::check_takes_more() const {
    if (flushed_) {
        throw MediaError(what_ + ": the encoder was flushed and takes no more frames");
    }
}

void StreamEncoder::add(FramePtr frame, std::vector<PacketPtr>& packets) {
    const FfmpegLog log;
    check_takes_more();
    // Decoders leave there how a picture was encoded before, which is no order to do so again.
    frame->pict_type = AV_PICTURE_TYPE_NONE;
    // The encoder reads it from each frame if the flag qscale is set.
    frame->quality = context_->global_quality;
    log.check(context_.send(*frame), what_.c_str());
    receive(packets);
}

void StreamEncoder::flush(std::vector<PacketPtr>& packets) {
    if (flushed_) {
        return;
    }
    const FfmpegLog log;
    flushed_ = true;
    const int code = context_.finish();
    if (code != AVERROR_EOF) {
        log.check(code, what_.c_str());
        receive(packets);
    }
}

void StreamEncoder::receive(std::vector<PacketPtr>& packets) {
    const FfmpegLog log;
    for (;;) {
        PacketPtr packet = make_packet();
        const int code = avcodec_receive_packet(context_.get(), packet.get());
        if (code == AVERROR(EAGAIN) || code == AVERROR_EOF) {
            return;
        }
        log.check(code, what_.c_str());
        if (packet->duration <= 0 && stream_->medium == Medium::kVideo) {
            packet->duration = 1;  // The time base of an encoder is one frame.
        }
        packets.push_back(std::move(packet));
    }
}

}  // namespace spdl
