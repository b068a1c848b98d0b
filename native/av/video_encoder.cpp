#include "av/video_encoder.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "av/encoder_choice.h"
#include "core/media_error.h"
#include "ffmpeg/borrowed_frame.h"
#include "ffmpeg/ffmpeg_frame.h"
#include "ffmpeg/ffmpeg_log.h"
#include "ffmpeg/repack.h"
#include "ffmpeg/shown_pixels.h"
#include "ffmpeg/times.h"

namespace spdl {
namespace {

constexpr AVRational kUsualRate{25, 1};

std::string describe(int width, int height, int format) {
    return std::to_string(width) + "x" + std::to_string(height) + " " + ffmpeg_format_name(format);
}

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

// Returns the format that the encoder has to be given: the same; else, if the codec keeps pixels as they are, one that
// holds them unchanged; else, for red, green and blue, the YUV format that the encoder puts first: players of lossy
// codecs hardly know anything else.
AVPixelFormat encoded_format(const AVCodec& encoder, AVPixelFormat given) {
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

// Returns the name by which the scale filter knows the weights of red, green and blue.
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
    taken_ = encoded_format(codec, given_);
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
                // What the conversion makes.
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
                         describe(options_.width, options_.height, given_) + ", but these are of " +
                         describe(frame.width, frame.height, frame.format) +
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
        if (av_frame_get_buffer(copy.get(), 0) < 0 || av_frame_copy_props(copy.get(), &frame) < 0) {
            throw std::bad_alloc();
        }
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
