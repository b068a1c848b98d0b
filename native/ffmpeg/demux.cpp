#include "ffmpeg/demux.h"

#include <cerrno>
#include <cstring>
#include <new>
#include <vector>

#include "core/limits.h"
#include "core/media_error.h"
#include "core/memory_source.h"
#include "ffmpeg/build_info.h"
#include "ffmpeg/decompression_bombs.h"
#include "ffmpeg/ffmpeg_log.h"
#include "ffmpeg/input.h"
#include "ffmpeg/libav_options.h"
#include "media/image_format.h"

namespace spdl {
namespace {

// Playlists and similar files name other files or addresses. An image has no business with them.
int refuse_to_open(AVFormatContext* context, AVIOContext** /*io*/, const char* /*url*/, int /*flags*/,
                   AVDictionary** /*options*/) {
    av_log(context, AV_LOG_ERROR, "the data names another file or address, which is never opened");
    return AVERROR(EACCES);
}

CodecParametersPtr make_parameters() {
    CodecParametersPtr parameters(avcodec_parameters_alloc());
    if (!parameters) {
        throw std::bad_alloc();
    }
    return parameters;
}

// FFmpeg's demuxer for each format. Left to itself, FFmpeg takes some pictures for music, and reads many formats in
// which it shows wrong pixels.
const char* demuxer_of(ImageFormat format) {
    switch (format) {
        case ImageFormat::kJpeg:
            return "jpeg_pipe";
        case ImageFormat::kPng:
            return "png_pipe";
        case ImageFormat::kGif:
            return "gif";
        case ImageFormat::kBmp:
            return "bmp_pipe";
        case ImageFormat::kTiff:
            return "tiff_pipe";
        case ImageFormat::kWebp:
            return "webp_pipe";
        case ImageFormat::kAvif:
        case ImageFormat::kHeif:
            return "mov";
        case ImageFormat::kJpeg2000:
            return "j2k_pipe";
        case ImageFormat::kQoi:
            return "qoi_pipe";
        case ImageFormat::kPbm:
            return "pbm_pipe";
        case ImageFormat::kPgm:
            return "pgm_pipe";
        case ImageFormat::kPpm:
            return "ppm_pipe";
        case ImageFormat::kUnknown:
            break;
    }
    return nullptr;
}

const AVInputFormat* find_demuxer(const std::string& name) {
    const AVInputFormat* format = av_find_input_format(name.c_str());
    if (format == nullptr) {
        throw MediaError("FFmpeg has no demuxer \"" + name + "\". " + remedy_for_missing_part());
    }
    if ((format->flags & AVFMT_NOFILE) != 0) {
        throw MediaError("the demuxer \"" + name + "\" opens files by itself and cannot read an image's bytes");
    }
    return format;
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

}  // namespace

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
    const FfmpegLog log;
    if (kind == ImageFormat::kQoi && options.format.empty() && options.format_options.empty()) {
        // FFmpeg's demuxer would cut it where its pixels look like the mark at its end.
        ImagePacket whole = whole_packet(bytes, AV_CODEC_ID_QOI);
        if (!options.bsf.empty()) {
            apply_bsf(whole, options.bsf, log);
        }
        return whole;
    }
    const AVInputFormat* const format = find_demuxer(options.format.empty() ? demuxer_of(kind) : options.format);
    MemorySource source(bytes);
    Input input(source, options.buffer_size);
    AVFormatContext* raw = avformat_alloc_context();
    if (raw == nullptr) {
        throw std::bad_alloc();
    }
    raw->pb = input.context();
    raw->flags |= AVFMT_FLAG_CUSTOM_IO;
    raw->io_open = refuse_to_open;
    // Demuxers that open further demuxers pass on this list (of no protocol that exists), not the callback.
    raw->protocol_whitelist = av_strdup("none");
    if (raw->protocol_whitelist == nullptr) {
        avformat_free_context(raw);
        throw std::bad_alloc();
    }
    LibavOptions format_options;
    for (const auto& [key, value] : options.format_options) {
        format_options.set(key.c_str(), value.c_str());
    }
    // On failure libav frees what it was given.
    log.check(avformat_open_input(&raw, nullptr, format, format_options.get()), "cannot read the image");
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

ImagePacket whole_packet(Bytes bytes, AVCodecID codec) {
    ImagePacket image{make_packet(), make_parameters(), {1, 25}};
    if (bytes.size() > kMaxEncodedBytes) {
        throw MediaError("cannot read the image: its " + std::to_string(bytes.size()) + " bytes are more than the " +
                         std::to_string(kMaxEncodedBytes) + " that FFmpeg can take");
    }
    image.parameters->codec_type = AVMEDIA_TYPE_VIDEO;
    image.parameters->codec_id = codec;
    if (av_new_packet(image.packet.get(), static_cast<int>(bytes.size())) < 0) {
        throw std::bad_alloc();
    }
    std::memcpy(image.packet->data, bytes.data(), bytes.size());
    image.packet->pts = 0;
    return image;
}

}  // namespace spdl
