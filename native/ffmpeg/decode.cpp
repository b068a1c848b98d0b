#include "ffmpeg/decode.h"

#include <cerrno>
#include <cstdint>
#include <new>

#include "core/geometry.h"
#include "core/media_error.h"
#include "ffmpeg/build_info.h"
#include "ffmpeg/decompression_bombs.h"
#include "ffmpeg/ffmpeg_log.h"
#include "ffmpeg/known_colors.h"
#include "ffmpeg/libav_options.h"

namespace spdl {
namespace {

const AVCodec* find_decoder(const ImagePacket& image, const std::string& name) {
    if (name.empty()) {
        const AVCodec* const decoder = avcodec_find_decoder(image.parameters->codec_id);
        if (decoder == nullptr) {
            throw MediaError(std::string("FFmpeg has no decoder for \"") +
                             avcodec_get_name(image.parameters->codec_id) + "\". " + remedy_for_missing_part());
        }
        return decoder;
    }
    const AVCodec* const decoder = avcodec_find_decoder_by_name(name.c_str());
    if (decoder == nullptr) {
        throw MediaError("FFmpeg has no decoder \"" + name + "\". " + remedy_for_missing_part());
    }
    if (decoder->id != image.parameters->codec_id) {
        throw MediaError("the decoder \"" + name + "\" does not decode \"" +
                         avcodec_get_name(image.parameters->codec_id) + "\"");
    }
    return decoder;
}

constexpr const char* kSize = "cannot decode the image: its size";

// Some decoders leave open whether samples use all levels. Stored gray does.
void set_levels(AVFrame& frame) {
    const AVPixFmtDescriptor* const format = av_pix_fmt_desc_get(static_cast<AVPixelFormat>(frame.format));
    const bool gray = format != nullptr && format->nb_components <= 2 &&
                      (format->flags & (AV_PIX_FMT_FLAG_PAL | AV_PIX_FMT_FLAG_RGB | AV_PIX_FMT_FLAG_BITSTREAM)) == 0;
    if (frame.color_range == AVCOL_RANGE_UNSPECIFIED && gray) {
        frame.color_range = AVCOL_RANGE_JPEG;
    }
}

}  // namespace

FramePtr decode_picture(const ImagePacket& image, const DecodeOptions& options) {
    check_metadata(image);
    const FfmpegLog log;
    const AVCodec* const decoder = find_decoder(image, options.decoder);
    const CodecContextPtr context(avcodec_alloc_context3(decoder));
    if (!context) {
        throw std::bad_alloc();
    }
    const auto check = [&](int code) {
        // The decoders know the limit, too, but their messages do not say what it is about.
        for (const Size size : {log.refused_size(), Size{context->width, context->height}}) {
            if (code < 0 && size.width > 0 && size.height > 0) {
                check_source_size(size, kSize, options.max_pixels);
            }
        }
        log.check(code, "cannot decode the image as ", avcodec_get_name(image.parameters->codec_id));
    };
    check(avcodec_parameters_to_context(context.get(), image.parameters.get()));
    context->pkt_timebase = image.time_base;
    // Images are decoded in parallel by the caller, one thread each.
    context->thread_count = 1;
    // FFmpeg counts the pixels of padded rows.
    constexpr std::int64_t kPadding = 64 * kMaxSide;
    context->max_pixels = options.max_pixels + kPadding;
    if (decoder->id == AV_CODEC_ID_MJPEG || decoder->id == AV_CODEC_ID_JPEGLS) {
        // Otherwise the decoder ends the picture where it finds damage, and returns it all the same.
        context->err_recognition |= AV_EF_EXPLODE;
    }
    if (decoder->id == AV_CODEC_ID_PNG) {
        context->err_recognition |= AV_EF_CRCCHECK | AV_EF_EXPLODE;
    }
    LibavOptions decoder_options;
    for (const auto& [key, value] : options.decoder_options) {
        decoder_options.set(key.c_str(), value.c_str());
    }
    check(avcodec_open2(context.get(), decoder, decoder_options.get()));
    decoder_options.check_all_used("decoder", decoder->name);

    FramePtr frame = make_frame();
    int code = avcodec_send_packet(context.get(), image.packet.get());
    if (code >= 0) {
        code = avcodec_receive_frame(context.get(), frame.get());
    }
    if (code == AVERROR(EAGAIN)) {
        // A decoder that delays its output returns it when it knows that nothing follows.
        check(avcodec_send_packet(context.get(), nullptr));
        code = avcodec_receive_frame(context.get(), frame.get());
    }
    check(code);
    check_source_size({frame->width, frame->height}, kSize, options.max_pixels);
    forget_unknown_colors(*frame);
    set_levels(*frame);
    return frame;
}

}  // namespace spdl
