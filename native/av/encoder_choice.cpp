#include "av/encoder_choice.h"

#include <algorithm>

#include "core/media_error.h"
#include "ffmpeg/build_info.h"

namespace spdl {
namespace {

AVMediaType media_type(Medium medium) {
    return medium == Medium::kAudio ? AVMEDIA_TYPE_AUDIO : AVMEDIA_TYPE_VIDEO;
}

// Returns whether an encoder can be used without being asked for by name.
bool is_ordinary(const AVCodec& codec) {
    constexpr int kSpecial = AV_CODEC_CAP_HARDWARE | AV_CODEC_CAP_HYBRID | AV_CODEC_CAP_EXPERIMENTAL;
    return av_codec_is_encoder(&codec) != 0 && (codec.capabilities & kSpecial) == 0;
}

// Some encoders for hardware do not say that they are. Their names do.
bool is_for_hardware(const std::string& name) {
    constexpr const char* kMarks[] = {"_v4l2m2m", "_vaapi", "_nvenc",      "nvenc",         "_qsv", "_amf",
                                      "_omx",     "_mf",    "_mediacodec", "_videotoolbox", "_at",  "_vulkan"};
    return std::ranges::any_of(kMarks, [&](const char* mark) { return name.ends_with(mark); });
}

const AVCodec* ordinary_encoder(AVCodecID id) {
    void* state = nullptr;
    while (const AVCodec* const codec = av_codec_iterate(&state)) {
        if (codec->id == id && is_ordinary(*codec) && !is_for_hardware(codec->name)) {
            return codec;
        }
    }
    return nullptr;
}

bool holds(const AVOutputFormat& format, AVCodecID codec) {
    return avformat_query_codec(&format, codec, FF_COMPLIANCE_NORMAL) == 1;
}

std::string encoder_names(Medium medium, const AVOutputFormat& format) {
    std::vector<std::string> names;
    void* state = nullptr;
    while (const AVCodec* const codec = av_codec_iterate(&state)) {
        if (codec->type == media_type(medium) && is_ordinary(*codec) && !is_for_hardware(codec->name) &&
            holds(format, codec->id)) {
            names.emplace_back(codec->name);
        }
    }
    std::ranges::sort(names);
    return names.empty() ? "none" : listed(names, [](const std::string& name) { return name; });
}

// Plain samples are stored as they are, if the format has a codec for that.
AVCodecID plain_codec(AVCodecID usual, AVSampleFormat format, const AVOutputFormat& container) {
    if (usual != AV_CODEC_ID_PCM_S16LE && usual != AV_CODEC_ID_PCM_S16BE) {
        return usual;
    }
    const AVCodecID codec = av_get_pcm_codec(format, usual == AV_CODEC_ID_PCM_S16BE ? 1 : 0);
    return codec != AV_CODEC_ID_NONE && holds(container, codec) ? codec : usual;
}

const AVCodec& usual_encoder(Medium medium, const AVOutputFormat& format, AVSampleFormat sample_format) {
    const bool sound = medium == Medium::kAudio;
    const AVCodecID usual = sound ? plain_codec(format.audio_codec, sample_format, format) : format.video_codec;
    std::vector<AVCodecID> codecs{usual};
    if (sound) {
        codecs.insert(codecs.end(), {AV_CODEC_ID_AAC, AV_CODEC_ID_OPUS, AV_CODEC_ID_FLAC, AV_CODEC_ID_PCM_S16LE});
    } else {
        codecs.insert(codecs.end(), {AV_CODEC_ID_H264, AV_CODEC_ID_MPEG4, AV_CODEC_ID_FFV1, AV_CODEC_ID_MJPEG});
    }
    for (const AVCodecID id : codecs) {
        const AVCodec* const encoder = id == AV_CODEC_ID_NONE ? nullptr : ordinary_encoder(id);
        // What a format says to be usual need not be known to be held.
        if (encoder != nullptr && (id == usual || holds(format, id))) {
            return *encoder;
        }
    }
    throw MediaError(std::string("there is no usual ") + medium_name(medium) + " encoder for the file format \"" +
                     format.name + "\": name one with encoder=. Of FFmpeg's encoders it can hold what these make: " +
                     encoder_names(medium, format));
}

// Returns the elements of a list that ends with `end`.
template <typename T>
std::vector<T> until(const T* list, T end) {
    std::vector<T> elements;
    for (; list != nullptr && *list != end; ++list) {
        elements.push_back(*list);
    }
    return elements;
}

#if LIBAVCODEC_VERSION_INT >= AV_VERSION_INT(61, 13, 100)
template <typename T>
const T* supported(const AVCodec& encoder, AVCodecConfig what) {
    const void* list = nullptr;
    avcodec_get_supported_config(nullptr, &encoder, what, 0, &list, nullptr);
    return static_cast<const T*>(list);
}
#endif

}  // namespace

const AVCodec& choose_encoder(Medium medium, const std::string& name, const AVOutputFormat& format,
                              AVSampleFormat sample_format) {
    if (name.empty()) {
        return usual_encoder(medium, format, sample_format);
    }
    const AVCodec* const encoder = avcodec_find_encoder_by_name(name.c_str());
    if (encoder == nullptr) {
        throw MediaError("FFmpeg has no encoder \"" + name + "\". A file in the format \"" + format.name +
                         "\" can hold what these make: " + encoder_names(medium, format) + ". " +
                         remedy_for_missing_part());
    }
    if (encoder->type != media_type(medium)) {
        throw MediaError("the encoder \"" + name + "\" does not encode " + medium_name(medium));
    }
    return *encoder;
}

std::vector<AVPixelFormat> pixel_formats(const AVCodec& encoder) {
#if LIBAVCODEC_VERSION_INT >= AV_VERSION_INT(61, 13, 100)
    return until(supported<AVPixelFormat>(encoder, AV_CODEC_CONFIG_PIX_FORMAT), AV_PIX_FMT_NONE);
#else
    return until(encoder.pix_fmts, AV_PIX_FMT_NONE);
#endif
}

std::vector<AVSampleFormat> sample_formats(const AVCodec& encoder) {
#if LIBAVCODEC_VERSION_INT >= AV_VERSION_INT(61, 13, 100)
    return until(supported<AVSampleFormat>(encoder, AV_CODEC_CONFIG_SAMPLE_FORMAT), AV_SAMPLE_FMT_NONE);
#else
    return until(encoder.sample_fmts, AV_SAMPLE_FMT_NONE);
#endif
}

std::vector<int> sample_rates(const AVCodec& encoder) {
#if LIBAVCODEC_VERSION_INT >= AV_VERSION_INT(61, 13, 100)
    return until(supported<int>(encoder, AV_CODEC_CONFIG_SAMPLE_RATE), 0);
#else
    return until(encoder.supported_samplerates, 0);
#endif
}

std::vector<const AVChannelLayout*> channel_layouts(const AVCodec& encoder) {
#if LIBAVCODEC_VERSION_INT >= AV_VERSION_INT(61, 13, 100)
    const auto* list = supported<AVChannelLayout>(encoder, AV_CODEC_CONFIG_CHANNEL_LAYOUT);
#else
    const AVChannelLayout* list = encoder.ch_layouts;
#endif
    std::vector<const AVChannelLayout*> layouts;
    for (; list != nullptr && list->nb_channels != 0; ++list) {
        layouts.push_back(list);
    }
    return layouts;
}

}  // namespace spdl
