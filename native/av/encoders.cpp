#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "av/muxer.h"
#include "core/errors.h"
#include "ffmpeg/ffmpeg_log.h"
#include "ffmpeg/frames.h"

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

// Plain samples are stored unchanged, if the format has a codec for that.
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
        // A format's usual codec need not be known as one that it can hold.
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

// Returns the encoder of that name; with "" the one for the file format: for its usual codec, if FFmpeg has an encoder
// that runs without special hardware, otherwise one that most builds of FFmpeg have. `sample_format` distinguishes
// codecs of plain samples. Throws MediaError.
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

// Return what the encoder takes; nothing if it does not tell, which means everything.
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

}  // namespace

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
    context_.open(settings.options, log, what_.c_str());

    CodecParametersPtr parameters = make_parameters();
    require_memory(avcodec_parameters_from_context(parameters.get(), context_.get()) >= 0);
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
    // Decoders leave there how a picture was encoded before, which is not an order to do so again.
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

namespace {

AVSampleFormat find_sample_format(const std::string& name) {
    const AVSampleFormat format = av_get_sample_fmt(name.c_str());
    if (format == AV_SAMPLE_FMT_NONE) {
        throw MediaError("FFmpeg has no sample format \"" + name +
                         "\"; there are u8, s16, s32, s64, flt and dbl, and with p behind, as in fltp");
    }
    return format;
}

// Returns whether every sample of one format has an equal in the other.
bool keeps_values(AVSampleFormat from, AVSampleFormat to) {
    // The formats by how much they hold; integers of 32 bits and floats hold different things.
    const AVSampleFormat source = av_get_packed_sample_fmt(from);
    const AVSampleFormat target = av_get_packed_sample_fmt(to);
    constexpr std::array kIntegers{AV_SAMPLE_FMT_U8, AV_SAMPLE_FMT_S16, AV_SAMPLE_FMT_S32};
    if (source == target || target == AV_SAMPLE_FMT_DBL) {
        return source != AV_SAMPLE_FMT_S64 || source == target;
    }
    if (target == AV_SAMPLE_FMT_FLT) {
        return source == AV_SAMPLE_FMT_U8 || source == AV_SAMPLE_FMT_S16;
    }
    const auto rank = [&](AVSampleFormat format) { return std::ranges::find(kIntegers, format) - kIntegers.begin(); };
    return source != AV_SAMPLE_FMT_FLT && source != AV_SAMPLE_FMT_DBL && source != AV_SAMPLE_FMT_S64 &&
           rank(target) < static_cast<std::ptrdiff_t>(kIntegers.size()) && rank(source) < rank(target);
}

bool is_lossy(const AVCodec& encoder) {
    const AVCodecDescriptor* const codec = avcodec_descriptor_get(encoder.id);
    return codec != nullptr && (codec->props & AV_CODEC_PROP_LOSSLESS) == 0;
}

// Returns the format that the encoder has to be given: the same; else one that holds the samples unchanged; else, if
// the codec changes them anyway, its first.
AVSampleFormat encoded_sample_format(const AVCodec& encoder, AVSampleFormat given) {
    const std::vector<AVSampleFormat> formats = sample_formats(encoder);
    if (formats.empty() || std::ranges::find(formats, given) != formats.end()) {
        return given;
    }
    const AVSampleFormat other =
        av_sample_fmt_is_planar(given) != 0 ? av_get_packed_sample_fmt(given) : av_get_planar_sample_fmt(given);
    if (std::ranges::find(formats, other) != formats.end()) {
        return other;
    }
    const auto wide = std::ranges::find_if(formats, [&](auto format) { return keeps_values(given, format); });
    if (wide != formats.end()) {
        return *wide;
    }
    if (is_lossy(encoder)) {
        return formats.front();
    }
    throw MediaError(std::string("the encoder \"") + encoder.name + "\" does not take the sample format \"" +
                     sample_format_name(given) + "\" but " + listed(formats, sample_format_name) +
                     ": pass one of these as sample_fmt, and convert the frames with the filter "
                     "\"aformat=sample_fmts=...\"");
}

void check_rate(const AVCodec& encoder, int rate) {
    const std::vector<int> rates = sample_rates(encoder);
    if (!rates.empty() && std::ranges::find(rates, rate) == rates.end()) {
        throw MediaError(
            std::string("the encoder \"") + encoder.name + "\" does not take " + std::to_string(rate) +
            " samples per second but " + listed(rates, [](int each) { return std::to_string(each); }) +
            ": pass one of these as sample_rate, and convert the frames with the filter \"aresample=...\"");
    }
}

std::string layout_name(const AVChannelLayout* layout) {
    return channel_layout_text(*layout);
}

// Sets the usual layout of that many channels, or the one that the encoder has for them.
void set_layout(const AVCodec& encoder, int channels, AVChannelLayout& layout) {
    av_channel_layout_uninit(&layout);
    av_channel_layout_default(&layout, channels);
    const std::vector<const AVChannelLayout*> layouts = channel_layouts(encoder);
    if (layouts.empty() || std::ranges::any_of(layouts, [&](const AVChannelLayout* each) {
            return av_channel_layout_compare(each, &layout) == 0;
        })) {
        return;
    }
    const auto alike =
        std::ranges::find_if(layouts, [&](const AVChannelLayout* each) { return each->nb_channels == channels; });
    if (alike == layouts.end()) {
        throw MediaError(std::string("the encoder \"") + encoder.name + "\" does not take " + std::to_string(channels) +
                         " channels but those of " + listed(layouts, layout_name));
    }
    require_memory(av_channel_layout_copy(&layout, *alike) >= 0);
}

}  // namespace

AudioEncoder::AudioEncoder(const AudioEncodeOptions& options, const AVOutputFormat& format)
    : options_(options), given_(find_sample_format(options.sample_format)), taken_(given_) {
    const AVCodec& codec = choose_encoder(Medium::kAudio, options.encoder, format, given_);
    taken_ = encoded_sample_format(codec, given_);
    check_rate(codec, options.sample_rate);
    encoder_.emplace(codec, Medium::kAudio, options, (format.flags & AVFMT_GLOBALHEADER) != 0,
                     [&](AVCodecContext& context) {
                         context.sample_fmt = taken_;
                         context.sample_rate = options.sample_rate;
                         context.time_base = {1, options.sample_rate};
                         set_layout(codec, options.num_channels, context.ch_layout);
                     });
}

int AudioEncoder::frame_size() const {
    const AVCodecContext& context = encoder_->context();
    return (context.codec->capabilities & AV_CODEC_CAP_VARIABLE_FRAME_SIZE) != 0 ? 0 : context.frame_size;
}

void AudioEncoder::check(const AVFrame& frame) const {
    if (frame.ch_layout.nb_channels != options_.num_channels || frame.sample_rate != options_.sample_rate ||
        frame.format != given_) {
        throw MediaError(encoder_->what() + ": it was made for " +
                         describe_sound(options_.num_channels, options_.sample_rate, given_) +
                         ", but these frames are of " +
                         describe_sound(frame.ch_layout.nb_channels, frame.sample_rate, frame.format) +
                         ": bring them into that form with a filter description, as get_audio_filter_desc writes it");
    }
}

std::int64_t AudioEncoder::time_of(const AVFrame& frame, AVRational time_base) const {
    if (frame.pts == AV_NOPTS_VALUE || time_base.num <= 0 || time_base.den <= 0) {
        return next_time_;
    }
    const AVRational sample{1, options_.sample_rate};
    const std::int64_t time = rescale_time(frame.pts, time_base, sample);
    if (!started_ || time == next_time_) {
        return time;
    }
    // Times in other units than samples, such as milliseconds, are rounded: without a gap in the sound, they are off by
    // up to one unit.
    const bool exact = time_base.den % (static_cast<std::int64_t>(options_.sample_rate) * time_base.num) == 0;
    const std::int64_t rounded = exact ? 0 : av_rescale_q_rnd(1, time_base, sample, AV_ROUND_UP);
    if (std::abs(time - next_time_) <= rounded) {
        return next_time_;
    }
    if (time < next_time_) {
        throw MediaError(encoder_->what() + ": the frames at " +
                         std::to_string(static_cast<double>(time) / options_.sample_rate) +
                         " s begin before the end of those before them: pass sound in the order in which it is heard, "
                         "with times that go on from one clip to the next");
    }
    return time;
}

FramePtr AudioEncoder::prepare(const AVFrame& frame, AVRational time_base) {
    FramePtr input = given_ != taken_ && is_borrowed(frame) ? copy_frame(frame) : reference(frame);
    const std::int64_t time = time_of(frame, time_base);
    input->pts = time;
    // The names of the channels are the encoder's; their number is the same.
    av_channel_layout_uninit(&input->ch_layout);
    require_memory(av_channel_layout_copy(&input->ch_layout, &encoder_->context().ch_layout) >= 0);
    next_time_ = time + frame.nb_samples;
    started_ = true;
    if (given_ == taken_) {
        return input;
    }
    if (!chain_) {
        chain_.emplace(*input, AVRational{1, options_.sample_rate}, AVRational{0, 1},
                       std::string("aformat=sample_fmts=") + sample_format_name(taken_));
    }
    chain_->add(std::move(input));
    FramePtr converted = chain_->get();
    if (!converted || converted->nb_samples != frame.nb_samples) {
        throw MediaError(encoder_->what() + ": the conversion of the samples did not give as many");
    }
    converted->pts = time;
    return converted;
}

void AudioEncoder::add(const std::vector<FramePtr>& frames, AVRational time_base, std::vector<PacketPtr>& packets) {
    encoder_->check_takes_more();
    const int size = frame_size();
    for (const FramePtr& frame : frames) {
        check(*frame);
        FramePtr prepared = prepare(*frame, time_base);
        if (size == 0) {
            encoder_->add(std::move(prepared), packets);
            continue;
        }
        queue_.add(std::move(prepared));
        while (queue_.size() >= size) {
            encoder_->add(queue_.take(size), packets);
        }
    }
}

void AudioEncoder::flush(std::vector<PacketPtr>& packets) {
    if (queue_.size() > 0) {
        encoder_->add(queue_.take(static_cast<int>(queue_.size())), packets);
    }
    encoder_->flush(packets);
}

namespace {

constexpr AVRational kUsualRate{25, 1};

bool has_luma(AVPixelFormat format) {
    const AVPixFmtDescriptor& pixel = *av_pix_fmt_desc_get(format);
    return (pixel.flags & (AV_PIX_FMT_FLAG_RGB | AV_PIX_FMT_FLAG_PAL)) == 0 && pixel.nb_components >= 3;
}

// Returns whether the format is red, green and blue, or gray, of 8 bits and without alpha.
bool is_array_format(AVPixelFormat format) {
    const AVPixFmtDescriptor& pixel = *av_pix_fmt_desc_get(format);
    return (pixel.flags & (AV_PIX_FMT_FLAG_ALPHA | AV_PIX_FMT_FLAG_PAL)) == 0 && pixel.comp[0].depth == 8 &&
           ((pixel.flags & AV_PIX_FMT_FLAG_RGB) != 0 || pixel.nb_components == 1);
}

// Returns those that the encoder takes by itself.
std::vector<AVPixelFormat> formats_of(const AVCodec& encoder) {
    std::vector<AVPixelFormat> formats = pixel_formats(encoder);
    if (encoder.id == AV_CODEC_ID_MJPEG) {
        // The others stand for the same with other levels, which JPEG files do not know.
        std::erase_if(formats, [](AVPixelFormat format) {
            return std::string(av_get_pix_fmt_name(format)).rfind("yuvj", 0) != 0;
        });
    }
    return formats;
}

bool is_lossless(const AVCodec& encoder) {
    const AVCodecDescriptor* const codec = avcodec_descriptor_get(encoder.id);
    return codec != nullptr &&
           (codec->props & (AV_CODEC_PROP_LOSSLESS | AV_CODEC_PROP_LOSSY)) == AV_CODEC_PROP_LOSSLESS;
}

// Returns the format that the encoder has to be given: the same; else, for a lossless codec, one that holds the pixels
// unchanged; else, for red, green and blue, the YUV format that the encoder puts first: players of lossy codecs hardly
// know anything else.
AVPixelFormat encoded_pixel_format(const AVCodec& encoder, AVPixelFormat given) {
    const std::vector<AVPixelFormat> formats = formats_of(encoder);
    if (formats.empty() || std::ranges::find(formats, given) != formats.end()) {
        return given;
    }
    const auto bits = [](AVPixelFormat format) { return av_get_bits_per_pixel(av_pix_fmt_desc_get(format)); };
    const auto luma = std::ranges::find_if(formats, has_luma);
    if (is_array_format(given) && luma != formats.end() && !is_lossless(encoder)) {
        return *luma;
    }
    std::vector<AVPixelFormat> unchanged;
    std::ranges::copy_if(formats, std::back_inserter(unchanged), [&](auto format) { return repacks(given, format); });
    if (!unchanged.empty()) {
        return *std::ranges::min_element(unchanged, {}, bits);
    }
    throw MediaError(std::string("the encoder \"") + encoder.name + "\" does not take the pixel format \"" +
                     av_get_pix_fmt_name(given) + "\" but " + listed(formats, av_get_pix_fmt_name) +
                     ": pass one of these as pix_fmt, and convert the frames with the filter \"format=pix_fmts=...\"");
}

template <typename Find>
int find_color(const std::string& name, const char* kind, Find find) {
    const int value = find(name.c_str());
    if (value < 0) {
        throw MediaError("FFmpeg knows no " + std::string(kind) + " \"" + name + "\"");
    }
    return value;
}

void set_colors(const VideoEncodeOptions& options, AVCodecContext& context) {
    if (!options.colorspace.empty()) {
        context.colorspace =
            static_cast<AVColorSpace>(find_color(options.colorspace, "colorspace", av_color_space_from_name));
    }
    if (!options.color_primaries.empty()) {
        context.color_primaries = static_cast<AVColorPrimaries>(
            find_color(options.color_primaries, "color_primaries", av_color_primaries_from_name));
    }
    if (!options.color_trc.empty()) {
        context.color_trc = static_cast<AVColorTransferCharacteristic>(
            find_color(options.color_trc, "color_trc", av_color_transfer_from_name));
    }
}

// Returns the scale filter's name for the weights of red, green and blue.
const char* matrix_name(AVColorSpace colors) {
    switch (colors) {
        case AVCOL_SPC_BT709:
            return "bt709";
        case AVCOL_SPC_FCC:
            return "fcc";
        case AVCOL_SPC_SMPTE240M:
            return "smpte240m";
        case AVCOL_SPC_BT2020_NCL:
            return "bt2020";
        case AVCOL_SPC_BT470BG:
        case AVCOL_SPC_SMPTE170M:
        case AVCOL_SPC_UNSPECIFIED:
            return "bt601";
        default:
            throw MediaError(std::string("cannot convert red, green and blue to the colorspace \"") +
                             av_color_space_name(colors) + "\": choose \"bt709\", \"smpte170m\" or \"bt2020nc\"");
    }
}

// Returns the format with the same planes, for those whose name also says that all levels are used: arrays of samples
// do not say that, and the encoder's configuration does.
AVPixelFormat without_levels(AVPixelFormat format) {
    switch (format) {
        case AV_PIX_FMT_YUVJ420P:
            return AV_PIX_FMT_YUV420P;
        case AV_PIX_FMT_YUVJ422P:
            return AV_PIX_FMT_YUV422P;
        case AV_PIX_FMT_YUVJ444P:
            return AV_PIX_FMT_YUV444P;
        default:
            return format;
    }
}

bool is_full_range(AVPixelFormat format) {
    return std::string(av_get_pix_fmt_name(format)).rfind("yuvj", 0) == 0;
}

}  // namespace

VideoEncoder::VideoEncoder(const VideoEncodeOptions& options, const AVOutputFormat& format)
    : options_(options), given_(find_pixel_format(options.pixel_format)), taken_(given_) {
    const AVCodec& codec = choose_encoder(Medium::kVideo, options.encoder, format, AV_SAMPLE_FMT_NONE);
    taken_ = encoded_pixel_format(codec, given_);
    encoder_.emplace(
        codec, Medium::kVideo, options, (format.flags & AVFMT_GLOBALHEADER) != 0, [&](AVCodecContext& context) {
            context.width = options.width;
            context.height = options.height;
            context.pix_fmt = taken_;
            context.framerate =
                options.frame_rate[0] > 0 ? AVRational{options.frame_rate[0], options.frame_rate[1]} : kUsualRate;
            context.time_base = av_inv_q(context.framerate);
            if (options.gop_size >= 0) {
                context.gop_size = options.gop_size;
            }
            if (options.max_b_frames >= 0) {
                context.max_b_frames = options.max_b_frames;
            }
            if (is_full_range(taken_)) {
                context.color_range = AVCOL_RANGE_JPEG;
            } else if (has_luma(taken_) && !has_luma(given_)) {
                // The conversion's result.
                context.color_range = AVCOL_RANGE_MPEG;
                context.colorspace = AVCOL_SPC_SMPTE170M;
            }
            set_colors(options, context);
        });
}

void VideoEncoder::check(const AVFrame& frame) const {
    const auto format = static_cast<AVPixelFormat>(frame.format);
    if (frame.width != options_.width || frame.height != options_.height ||
        without_levels(format) != without_levels(given_)) {
        throw MediaError(encoder_->what() + ": it was made for frames of " +
                         describe_picture(options_.width, options_.height, given_) + ", but these are of " +
                         describe_picture(frame.width, frame.height, frame.format) +
                         ": bring them into that form with a filter description, as get_video_filter_desc writes it");
    }
}

FramePtr VideoEncoder::convert(const AVFrame& given) {
    const FramePtr named = reference(given);
    named->format = given_;
    const AVFrame& frame = *named;
    if (given_ == taken_ || repacks(given_, taken_)) {
        // Copied in any case: encoders may read a little beyond a row, which is safe only in libav's own frames.
        FramePtr copy = make_frame();
        copy->format = taken_;
        copy->width = frame.width;
        copy->height = frame.height;
        require_memory(av_frame_get_buffer(copy.get(), 0) >= 0 && av_frame_copy_props(copy.get(), &frame) >= 0);
        repack(frame, *copy);
        return copy;
    }
    if (!chain_ || !chain_->takes(frame)) {
        const std::string matrix = is_full_range(taken_) ? "bt601" : matrix_name(encoder_->context().colorspace);
        chain_.emplace(frame, encoder_->context().time_base, AVRational{0, 1},
                       "scale=flags=bicubic+accurate_rnd+full_chroma_int:out_color_matrix=" + matrix +
                           ":out_range=" + (is_full_range(taken_) ? "full" : "limited") +
                           ",format=pix_fmts=" + av_get_pix_fmt_name(taken_));
    }
    FramePtr input = is_borrowed(frame) ? copy_frame(frame) : reference(frame);
    input->pts = next_time_;
    chain_->add(std::move(input));
    FramePtr converted = chain_->get();
    if (!converted) {
        throw MediaError(encoder_->what() + ": the conversion of the pixels gave no frame");
    }
    return converted;
}

std::int64_t VideoEncoder::time_of(const AVFrame& frame, AVRational time_base) {
    if (frame.pts == AV_NOPTS_VALUE || time_base.num <= 0 || time_base.den <= 0) {
        return next_time_;
    }
    const std::int64_t time = rescale_time(frame.pts, time_base, encoder_->context().time_base);
    if (time >= next_time_ || !started_) {
        return time;
    }
    const AVRational rate = encoder_->context().framerate;
    const std::string seconds = std::to_string(static_cast<double>(frame.pts) * av_q2d(time_base));
    throw MediaError(
        encoder_->what() + ": the frame at " + seconds + " s is not after the one before it, with times rounded to " +
        std::to_string(rate.num) + "/" + std::to_string(rate.den) +
        " frames per second: pass the frames' own rate as frame_rate to video_encode_config, and frames in "
        "the order in which they are shown, with times that go on from one clip to the next");
}

void VideoEncoder::add(const std::vector<FramePtr>& frames, AVRational time_base, std::vector<PacketPtr>& packets) {
    encoder_->check_takes_more();
    for (const FramePtr& frame : frames) {
        check(*frame);
        const std::int64_t time = time_of(*frame, time_base);
        FramePtr converted = convert(*frame);
        converted->pts = time;
        next_time_ = time + 1;
        started_ = true;
        encoder_->add(std::move(converted), packets);
    }
}

}  // namespace spdl
