#include "av/audio_encoder.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>
#include <string>
#include <utility>

#include "av/encoder_choice.h"
#include "core/media_error.h"
#include "ffmpeg/borrowed_frame.h"
#include "ffmpeg/channel_layout.h"
#include "ffmpeg/times.h"

namespace spdl {
namespace {

const char* format_name(int format) {
    const char* const name = av_get_sample_fmt_name(static_cast<AVSampleFormat>(format));
    return name == nullptr ? "unknown" : name;
}

std::string describe(int channels, int rate, int format) {
    return std::to_string(channels) + " channels of " + format_name(format) + " at " + std::to_string(rate) + " Hz";
}

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
AVSampleFormat encoded_format(const AVCodec& encoder, AVSampleFormat given) {
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
                     format_name(given) + "\" but " + listed(formats, format_name) +
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
    if (av_channel_layout_copy(&layout, *alike) < 0) {
        throw std::bad_alloc();
    }
}

}  // namespace

AudioEncoder::AudioEncoder(const AudioEncodeOptions& options, const AVOutputFormat& format)
    : options_(options), given_(find_sample_format(options.sample_format)), taken_(given_) {
    const AVCodec& codec = choose_encoder(Medium::kAudio, options.encoder, format, given_);
    taken_ = encoded_format(codec, given_);
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
                         describe(options_.num_channels, options_.sample_rate, given_) + ", but these frames are of " +
                         describe(frame.ch_layout.nb_channels, frame.sample_rate, frame.format) +
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
    // Times in other units than samples, such as milliseconds, are rounded: those of sound without a gap are off by up
    // to one unit.
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
    if (av_channel_layout_copy(&input->ch_layout, &encoder_->context().ch_layout) < 0) {
        throw std::bad_alloc();
    }
    next_time_ = time + frame.nb_samples;
    started_ = true;
    if (given_ == taken_) {
        return input;
    }
    if (!chain_) {
        chain_.emplace(*input, AVRational{1, options_.sample_rate}, AVRational{0, 1},
                       std::string("aformat=sample_fmts=") + format_name(taken_));
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

}  // namespace spdl
