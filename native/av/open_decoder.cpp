#include "av/open_decoder.h"

#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "core/limits.h"
#include "core/little_endian.h"
#include "core/media_error.h"
#include "ffmpeg/build_info.h"
#include "ffmpeg/ffmpeg_log.h"
#include "ffmpeg/libav_options.h"

namespace spdl {
namespace {

const AVCodec* find_decoder(const Stream& stream, const std::string& name) {
    const AVCodecID codec = stream.parameters->codec_id;
    const AVCodec* const decoder =
        name.empty() ? avcodec_find_decoder(codec) : avcodec_find_decoder_by_name(name.c_str());
    if (decoder == nullptr) {
        throw MediaError((name.empty() ? "FFmpeg has no decoder for the " + stream.describe()
                                       : "FFmpeg has no decoder \"" + name + "\"") +
                         ". " + remedy_for_missing_part());
    }
    if (decoder->id != codec) {
        throw MediaError("the decoder \"" + name + "\" does not decode the " + stream.describe());
    }
    return decoder;
}

// Does what avcodec_open2() does. The decoder of Speex that FFmpeg has of its own takes frames of wide-band sound for
// twice as long as they are since FFmpeg 7, by a number of the stream's header. So it gets none, and goes by a sample
// rate, as it does for Flash video.
int open_decoder(AVCodecContext& context, const AVCodec& decoder, AVDictionary** options) {
    constexpr int kHeader = 80;
    constexpr int kNarrowBand = 8000;
    constexpr std::uint32_t kUltraWideBand = 2;
    constexpr unsigned kFfmpeg7 = AV_VERSION_INT(61, 0, 0);
    if (avcodec_version() < kFfmpeg7 || std::string_view(decoder.name) != "speex" || context.extradata_size < kHeader ||
        std::memcmp(context.extradata, "Speex   ", 8) != 0) {
        return avcodec_open2(&context, &decoder, options);
    }
    const auto band = load_le<std::uint32_t>(context.extradata + 40);
    if (band > kUltraWideBand) {
        return AVERROR_INVALIDDATA;
    }
    av_freep(&context.extradata);
    context.extradata_size = 0;
    // The frames have the rate that the context has when they are decoded, which may be another one.
    const int rate = std::exchange(context.sample_rate, kNarrowBand << band);
    const int opened = avcodec_open2(&context, &decoder, options);
    context.sample_rate = rate;
    return opened;
}

// Returns whether FFmpeg's decoder compares the checksums of packets, and says so with an error, if it is told to.
// Those of the others are left alone: of MPEG sound, known encoders write wrong ones.
bool checks_sums(AVCodecID codec) {
    switch (codec) {
        case AV_CODEC_ID_FLAC:
        case AV_CODEC_ID_WAVPACK:
        case AV_CODEC_ID_TTA:
        case AV_CODEC_ID_AC3:
        case AV_CODEC_ID_EAC3:
            return true;
        default:
            return false;
    }
}

}  // namespace

CodecContextPtr make_decoder(const Stream& stream, const DecodeOptions& options) {
    const FfmpegLog log;
    const AVCodec* const decoder = find_decoder(stream, options.decoder);
    CodecContextPtr context(avcodec_alloc_context3(decoder));
    if (!context) {
        throw std::bad_alloc();
    }
    const std::string tried = "cannot decode the " + stream.describe();
    log.check(avcodec_parameters_to_context(context.get(), stream.parameters.get()), tried.c_str());
    if (context->codec_id == AV_CODEC_ID_MJPEG && stream.parameters->field_order == AV_FIELD_PROGRESSIVE) {
        // FFmpeg would take the first picture for one of two fields if it is lower than the stream.
        context->width = 0;
        context->height = 0;
    }
    context->pkt_timebase = stream.time_base;
    context->framerate = stream.frame_rate;
    // Clips are decoded in parallel by the caller, one thread each.
    context->thread_count = 1;
    // FFmpeg counts the pixels of padded rows.
    constexpr std::int64_t kPadding = 64 * kMaxSide;
    context->max_pixels = options.max_pixels + kPadding;
    if (checks_sums(context->codec_id)) {
        context->err_recognition |= AV_EF_CRCCHECK | AV_EF_EXPLODE;
    }
    if (context->codec_id == AV_CODEC_ID_MJPEG) {
        // Of a damaged picture FFmpeg shows what it has, and below it what was in the memory before.
        context->err_recognition |= AV_EF_EXPLODE;
    }
    LibavOptions decoder_options;
    for (const auto& [key, value] : options.decoder_options) {
        decoder_options.set(key.c_str(), value.c_str());
    }
    log.check(open_decoder(*context, *decoder, decoder_options.get()), tried.c_str());
    decoder_options.check_all_used("decoder", decoder->name);
    return context;
}

}  // namespace spdl
