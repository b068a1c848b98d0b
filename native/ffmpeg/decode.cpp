#include "ffmpeg/decode.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "core/errors.h"
#include "core/files.h"
#include "ffmpeg/byte_io.h"
#include "ffmpeg/ffmpeg_log.h"
#include "ffmpeg/filters.h"

namespace spdl {
namespace {

// FFmpeg's demuxer for each format. Left to itself, FFmpeg takes some pictures for music, and reads many formats in
// which it shows wrong pixels.
const char* demuxer_of(ImageFormat format) {
    // In the order of ImageFormat.
    constexpr const char* kDemuxers[] = {nullptr,     "jpeg_pipe", "png_pipe", "gif",     "bmp_pipe",
                                         "tiff_pipe", "webp_pipe", "mov",      "mov",     "j2k_pipe",
                                         "qoi_pipe",  "pbm_pipe",  "pgm_pipe", "ppm_pipe"};
    static_assert(std::size(kDemuxers) == kImageFormats);
    return kDemuxers[static_cast<std::size_t>(format)];
}

void apply_bsf(ImagePacket& image, const std::string& filters, const FfmpegLog& log) {
    AVBSFContext* created = nullptr;
    const std::string what = "cannot apply the bitstream filter \"" + filters + "\"";
    log.check(av_bsf_list_parse_str(filters.c_str(), &created), what.c_str());
    const BsfContextPtr bsf(created);
    log.check(avcodec_parameters_copy(bsf->par_in, image.parameters.get()), what.c_str());
    bsf->time_base_in = image.time_base;
    log.check(av_bsf_init(bsf.get()), what.c_str());
    log.check(av_bsf_send_packet(bsf.get(), image.packet.get()), what.c_str());
    int code = av_bsf_receive_packet(bsf.get(), image.packet.get());
    if (code == AVERROR(EAGAIN)) {
        log.check(av_bsf_send_packet(bsf.get(), nullptr), what.c_str());
        code = av_bsf_receive_packet(bsf.get(), image.packet.get());
    }
    log.check(code, what.c_str());
    log.check(avcodec_parameters_copy(image.parameters.get(), bsf->par_out), what.c_str());
    image.time_base = bsf->time_base_out;
}

// Returns all of `bytes` as one packet for `codec`.
ImagePacket whole_packet(Bytes bytes, AVCodecID codec) {
    ImagePacket image{make_packet(), make_parameters(), {1, 25}};
    if (bytes.size() > kMaxEncodedBytes) {
        throw MediaError("cannot read the image: its " + std::to_string(bytes.size()) + " bytes are more than the " +
                         std::to_string(kMaxEncodedBytes) + " that FFmpeg can take");
    }
    image.parameters->codec_type = AVMEDIA_TYPE_VIDEO;
    image.parameters->codec_id = codec;
    require_memory(av_new_packet(image.packet.get(), static_cast<int>(bytes.size())) >= 0);
    std::memcpy(image.packet->data, bytes.data(), bytes.size());
    image.packet->pts = 0;
    return image;
}

// Returns the first picture of the image (or video) in `bytes`, through libavformat. No other file or address is ever
// opened, whatever the bytes name. Throws MediaError.
ImagePacket demux_picture(Bytes bytes, const DemuxOptions& options) {
    if (bytes.empty()) {
        throw MediaError("cannot read the image: there are no bytes in it");
    }
    // No other container begins with so short a box, and no other demuxer inflates data without a limit.
    if (bytes[0] == 0 || !options.format.empty()) {
        check_container(bytes);
    }
    const ImageFormat kind = image_format(bytes);
    if (kind == ImageFormat::kUnknown && options.format.empty()) {
        throw MediaError("cannot read the image: " + describe_unknown_format(bytes));
    }
    if (kind == ImageFormat::kAvif || kind == ImageFormat::kHeif) {
        check_items(bytes);
    }
    const FfmpegLog log;
    if (kind == ImageFormat::kQoi && options.format.empty() && options.format_options.empty()) {
        // FFmpeg's demuxer would cut it where its pixels look like the mark at its end.
        ImagePacket whole = whole_packet(bytes, AV_CODEC_ID_QOI);
        if (!options.bsf.empty()) {
            apply_bsf(whole, options.bsf, log);
        }
        return whole;
    }
    const AVInputFormat& format =
        find_demuxer(options.format.empty() ? demuxer_of(kind) : options.format, "an image's bytes");
    MemorySource source(bytes);
    Input input(source, options.buffer_size);
    AVFormatContext* raw = make_context(input).release();
    LibavOptions format_options(options.format_options);
    // On failure libav frees what it was given.
    log.check(avformat_open_input(&raw, nullptr, &format, format_options.get()), "cannot read the image");
    const FormatContextPtr container(raw);
    format_options.check_all_used("demuxer", container->iformat->name);

    int stream = av_find_best_stream(container.get(), AVMEDIA_TYPE_VIDEO, -1, -1, nullptr, 0);
    if (stream < 0) {
        // Some containers show their streams only with the first packets.
        log.check(avformat_find_stream_info(container.get(), nullptr), "cannot read the image");
        stream = av_find_best_stream(container.get(), AVMEDIA_TYPE_VIDEO, -1, -1, nullptr, 0);
        log.check(stream, "cannot find a picture in the data");
    }
    ImagePacket image{make_packet(), make_parameters(), container->streams[stream]->time_base};
    do {
        av_packet_unref(image.packet.get());
        log.check(av_read_frame(container.get(), image.packet.get()), "cannot find a picture in the data");
    } while (image.packet->stream_index != stream);
    log.check(avcodec_parameters_copy(image.parameters.get(), container->streams[stream]->codecpar),
              "cannot read the image");
    if (!options.bsf.empty()) {
        apply_bsf(image, options.bsf, log);
    }
    return image;
}

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

// Decodes the picture in `image` to its stored pixel format. Throws MediaError.
FramePtr decode_picture(const ImagePacket& image, const DecodeOptions& options) {
    check_picture(image, options);
    const FfmpegLog log;
    const AVCodec* const decoder = find_decoder(image, options.decoder);
    const CodecContextPtr context(avcodec_alloc_context3(decoder));
    require_memory(context != nullptr);
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
    context->max_pixels = options.max_pixels + kPaddingPixels;
    if (decoder->id == AV_CODEC_ID_MJPEG || decoder->id == AV_CODEC_ID_JPEGLS) {
        // Otherwise the decoder ends the picture at the damage, and returns it anyway.
        context->err_recognition |= AV_EF_EXPLODE;
    }
    if (decoder->id == AV_CODEC_ID_PNG) {
        context->err_recognition |= AV_EF_CRCCHECK | AV_EF_EXPLODE;
    }
    LibavOptions decoder_options(options.decoder_options);
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

const ImagePacket& packet_of(const EncodedImage& image) {
    return dynamic_cast<const FfmpegPacket&>(*image.packet).get();
}

AVCodecID find_codec(const EncodedImage& image) {
    const std::string name(image.codec);
    const AVCodecDescriptor* const codec = avcodec_descriptor_get_by_name(name.c_str());
    if (codec == nullptr) {
        throw MediaError("FFmpeg has no codec \"" + name + "\"");
    }
    return codec->id;
}

// Decodes the whole image to its stored pixel format. Throws MediaError.
FramePtr decode_stored(const EncodedImage& image, const DemuxOptions& demux, const DecodeOptions& decode) {
    if (image.packet != nullptr) {
        return decode_picture(packet_of(image), decode);
    }
    if (!image.codec.empty()) {
        // The pictures of AVIF and HEIC are inside of containers.
        if (const AVCodecID codec = find_codec(image); codec != AV_CODEC_ID_AV1 && codec != AV_CODEC_ID_HEVC) {
            return decode_picture(whole_packet(image.bytes, codec), decode);
        }
    }
    return decode_picture(demux_picture(image.bytes, demux), decode);
}

Rational rational(AVRational value) {
    return {value.num, value.den};
}

}  // namespace

AVRational time_base(const EncodedImage& image) {
    constexpr AVRational kImageTimeBase{1, 25};  // The unit of FFmpeg's image demuxers.
    return image.packet == nullptr ? kImageTimeBase : packet_of(image).time_base;
}

std::unique_ptr<Frame> decode_filtered(const Packet& packet, const std::string& filters, const DecodeOptions& options) {
    if (options.backend != nullptr && options.backend != &ffmpeg_backend) {
        refuse(*options.backend);
    }
    const EncodedImage image = packet.image();
    FramePtr frame = decode_stored(image, {}, options);
    if (!filters.empty()) {
        frame = filter_frame(*frame, time_base(image), filters);
    }
    return std::make_unique<FfmpegFrame>(std::move(frame), time_base(image));
}

std::unique_ptr<Frame> filtered(std::unique_ptr<Frame> frame, const std::string& filters) {
    const FfmpegFrame& source = as_ffmpeg(*frame);
    return std::make_unique<FfmpegFrame>(filter_frame(source.get(), source.time_base(), filters), source.time_base());
}

FfmpegPacket::FfmpegPacket(ImagePacket packet) : packet_(std::move(packet)) {}

const CodecInfo& FfmpegPacket::info() const {
    std::call_once(examined_, [this] {
        const FramePtr frame = decode_picture(packet_, {});
        info_ = {avcodec_get_name(packet_.parameters->codec_id),
                 {frame->width, frame->height},
                 ffmpeg_format_name(frame->format),
                 rational(packet_.time_base),
                 rational(frame->sample_aspect_ratio)};
    });
    return info_;
}

bool FfmpegDecoder::accepts(const EncodedImage& image, const DemuxOptions& demux,
                            const DecodeOptions& decode) const noexcept {
    if (image.packet != nullptr) {
        return dynamic_cast<const FfmpegPacket*>(image.packet) != nullptr;
    }
    if (image.page) {
        return false;
    }
    return decode.backend == &ffmpeg_backend || demux.need_ffmpeg() || decode.need_ffmpeg();
}

ImageShape FfmpegDecoder::open(const EncodedImage& image, const DemuxOptions& demux, const DecodeOptions& decode) {
    filters_ = decode.backend == &ffmpeg_backend;
    time_base_ = time_base(image);
    return open(decode_stored(image, demux, decode));
}

ImageShape FfmpegDecoder::open(FramePtr frame) {
    frame_ = std::move(frame);
    ImageShape shape{{frame_->width, frame_->height}, {}, {1, 1}, false};
    if (const AVPixFmtDescriptor* const format = av_pix_fmt_desc_get(static_cast<AVPixelFormat>(frame_->format))) {
        shape.chroma_grid = {1 << format->log2_chroma_w, 1 << format->log2_chroma_h};
    }
    return shape;
}

std::optional<ImageShape> FfmpegDecoder::transform(const ImageShape& shape, const LoadOptions& options,
                                                   const CropAndFlip& crop) {
    if (!filters_) {
        return std::nullopt;
    }
    return open(filter_frame(*frame_, {0, 1}, filter_description(shape, options, crop)));
}

void FfmpegDecoder::decode(const Region& region, Place& place) {
    converter_.convert(*frame_, region.box, region.channels, place.begin({region.box.size().width, 0}));
}

FrameProperties FfmpegDecoder::properties() const {
    return FfmpegFrame(reference(*frame_), time_base_).properties();
}

std::shared_ptr<const Packet> FfmpegDecoder::demux(std::shared_ptr<const void> /*owner*/, const EncodedImage& image,
                                                   const DemuxOptions& options) {
    return std::make_shared<const FfmpegPacket>(demux_picture(image.bytes, options));
}

const Backend ffmpeg_backend{"ffmpeg", "decodes no packets of other backends", make_decoder<FfmpegDecoder>};

}  // namespace spdl
