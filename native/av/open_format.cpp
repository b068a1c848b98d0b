#include "av/open_format.h"

#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "core/media_error.h"
#include "ffmpeg/build_info.h"
#include "ffmpeg/ffmpeg_log.h"
#include "ffmpeg/libav_options.h"

namespace spdl {
namespace {

constexpr const char* kRead = "cannot read the file";

// Playlists and similar files name other files or addresses. Whoever wrote them must not choose what is opened here.
int refuse_to_open(AVFormatContext* context, AVIOContext** /*io*/, const char* /*url*/, int /*flags*/,
                   AVDictionary** /*options*/) {
    av_log(context, AV_LOG_ERROR, "the data names another file or address, which is never opened\n");
    return AVERROR(EACCES);
}

const AVInputFormat* find_demuxer(const std::string& name) {
    const AVInputFormat* const format = av_find_input_format(name.c_str());
    if (format == nullptr) {
        throw MediaError("FFmpeg has no demuxer \"" + name + "\". " + remedy_for_missing_part());
    }
    if ((format->flags & AVFMT_NOFILE) != 0) {
        throw MediaError("the demuxer \"" + name + "\" opens files by itself and cannot read bytes");
    }
    return format;
}

// Returns whether the header says all that it takes to read the packets of a video, and to open a decoder for them.
bool is_described(const AVStream& stream) {
    const AVCodecParameters& video = *stream.codecpar;
    return video.codec_type == AVMEDIA_TYPE_VIDEO && video.codec_id != AV_CODEC_ID_NONE && video.width > 0 &&
           video.height > 0 && video.extradata_size > 0;
}

// Returns the names of the decoders for streams that are not described.
std::string decoders_for_others(const AVFormatContext& context) {
    std::string names = "none";  // No decoder has this name.
    for (unsigned i = 0; i < context.nb_streams; ++i) {
        if (is_described(*context.streams[i])) {
            continue;
        }
        void* at = nullptr;
        while (const AVCodec* const codec = av_codec_iterate(&at)) {
            if (codec->id == context.streams[i]->codecpar->codec_id && av_codec_is_decoder(codec) != 0) {
                names += std::string(",") + codec->name;
            }
        }
    }
    return names;
}

// Looks into the streams for what the header does not tell. FFmpeg decodes frames for that. A key frame takes as long
// as everything else that happens when a file is opened, so videos that are described are not decoded if the pixel
// format need not be known.
int find_stream_info(AVFormatContext& context, Probing probing, FfmpegLog& log) {
    if (probing == Probing::kAll || !has_index(context)) {
        return avformat_find_stream_info(&context, nullptr);
    }
    char* const before = std::exchange(context.codec_whitelist, av_strdup(decoders_for_others(context).c_str()));
    // What FFmpeg says of decoders that are not on the list.
    log.leave_out("not on whitelist 'none");
    log.leave_out("Failed to open codec");
    const int found = avformat_find_stream_info(&context, nullptr);
    av_free(std::exchange(context.codec_whitelist, before));
    return found;
}

// Does what FfmpegLog::check() does, and adds the way out if FFmpeg had to guess the format.
void check_opened(int code, const FfmpegLog& log, bool guessed) {
    if (code == AVERROR_EOF) {
        throw MediaError(std::string(kRead) + ": it ends before its header does" +
                         (log.line().empty() ? "" : " (FFmpeg: " + log.line() + ")") +
                         ". It is cut off, or damaged, and nothing can be decoded without the whole header");
    }
    try {
        log.check(code, kRead);
    } catch (const MediaError& error) {
        throw MediaError(error.what() + std::string(guessed ? ". Sound or video that no header describes, such as PCM "
                                                              "or G.722, can be read if its format is named: "
                                                              "demux_config(format=\"g722\")"
                                                            : ""));
    }
}

// Finds the demuxer for the data, and how sure that is. Throws if it is one that opens other files or addresses.
const AVInputFormat* probe(AVFormatContext& container, Input& input, int& score, const FfmpegLog& log) {
    const AVInputFormat* format = nullptr;
    score = av_probe_input_buffer2(container.pb, &format, "", &container, 0, 0);
    input.rethrow();
    check_opened(score, log, score == AVERROR_INVALIDDATA);
    const std::string_view name = format->name;
    for (const std::string_view refused : {"hls", "dash", "concat", "imf", "webm_dash_manifest", "sdp", "rtsp"}) {
        if (name.find(refused) != std::string_view::npos) {
            throw MediaError(std::string(kRead) + ": it is a list (" + format->name +
                             ") that names other files or addresses, which are never opened");
        }
    }
    return format;
}

}  // namespace

bool has_index(const AVFormatContext& context) {
    return std::string_view(context.iformat->name).find("mp4") != std::string_view::npos;
}

OpenFormat open_format(Input& input, const DemuxOptions& options, Probing probing, bool plain_wav) {
    const AVInputFormat* format = options.format.empty() ? nullptr : find_demuxer(options.format);
    // A context that is not open yet is freed by another function.
    struct FreeUnopened {
        void operator()(AVFormatContext* context) const noexcept { avformat_free_context(context); }
    };
    std::unique_ptr<AVFormatContext, FreeUnopened> unopened(avformat_alloc_context());
    if (!unopened) {
        throw std::bad_alloc();
    }
    unopened->pb = input.context();
    unopened->flags |= AVFMT_FLAG_CUSTOM_IO;
    unopened->io_open = refuse_to_open;
    // Demuxers that open further demuxers pass on this list (of no protocol that exists), not the callback.
    unopened->protocol_whitelist = av_strdup("none");
    if (unopened->protocol_whitelist == nullptr) {
        throw std::bad_alloc();
    }
    FfmpegLog log;
    int score = AVPROBE_SCORE_MAX;
    if (format == nullptr) {
        format = probe(*unopened, input, score, log);
    }
    LibavOptions format_options;
    if (plain_wav && format != nullptr && std::string_view(format->name) == "wav") {
        // At least one packet is looked at in any case.
        unopened->max_probe_packets = 1;
    }
    for (const auto& [key, value] : options.format_options) {
        format_options.set(key.c_str(), value.c_str());
    }
    // On failure libav frees what it was given.
    AVFormatContext* given = unopened.release();
    const int opened = avformat_open_input(&given, nullptr, format, format_options.get());
    FormatContextPtr made(given);
    input.rethrow();
    check_opened(opened, log, score <= AVPROBE_SCORE_RETRY);
    OpenFormat result{std::move(made), {}};
    for (unsigned i = 0; i < result.context->nb_streams; ++i) {
        result.packets_in_index.push_back(avformat_index_get_entries_count(result.context->streams[i]));
    }
    format_options.check_all_used("demuxer", result.context->iformat->name);
    const int found = find_stream_info(*result.context, probing, log);
    input.rethrow();
    check_opened(found, log, false);
    return result;
}

}  // namespace spdl
