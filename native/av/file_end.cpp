#include "av/file_end.h"

#include <cstdio>
#include <string>
#include <string_view>

#include "av/promised_end.h"
#include "av/promised_sound.h"
#include "core/media_error.h"

namespace spdl {
namespace {

// Demuxers that notice it say so in the log only, and end as if the file were whole; that of MPEG-TS says nothing.
void check_containers(AVFormatContext& context, std::int64_t size, const FfmpegLog& log) {
    const std::string_view format = context.iformat->name;
    // The packets of MPEG-TS have one size throughout a file.
    const bool cut_packet = format == "mpegts" && size > 0 && size % 188 != 0 && size % 192 != 0 && size % 204 != 0;
    const std::string& line = log.line();
    const bool said = line.find("prematurely") != std::string::npos || line.find("truncated") != std::string::npos;
    if (cut_packet || said || ends_early(context, size)) {
        throw DamageError(std::string("cannot read the file: it ends in the middle") +
                          (line.empty() ? "" : " (FFmpeg: " + line + ")") + ". A window that ends before can be read");
    }
}

[[noreturn]] void raise_cut(const std::string& found, const std::string& promised) {
    throw DamageError("the file ends after " + found + " of sound, but its header says " + promised +
                      ": it is cut off. To take what there is, pass "
                      "demux_config(format_options={\"err_detect\": \"ignore_err\"})");
}

std::string seconds(std::int64_t time, AVRational unit) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.3f s", static_cast<double>(time) * av_q2d(unit));
    return text;
}

// The headers of these say how many bytes of sound there are. For WAV, FFmpeg corrects what it says.
void check_bytes(AVFormatContext& context, std::int64_t size, const std::optional<WavSize>& cut_wav) {
    const bool wav = std::string_view(context.iformat->name) == "wav";
    if (const std::optional<WavSize> cut = wav ? cut_wav : find_cut_sound(context, size)) {
        raise_cut(std::to_string(cut->present) + " bytes", std::to_string(cut->promised));
    }
}

// The headers of these say, to the sample, how much sound there is.
void check_samples(const AVFormatContext& context, std::int64_t last_end) {
    const std::string_view format = context.iformat->name;
    if ((format != "aiff" && format != "flac") || context.duration_estimation_method != AVFMT_DURATION_FROM_STREAM) {
        return;
    }
    const AVStream& sound = *context.streams[0];
    const std::int64_t found = last_end - (sound.start_time == AV_NOPTS_VALUE ? 0 : sound.start_time);
    if (sound.duration > 0 && found < sound.duration) {
        raise_cut(seconds(found, sound.time_base), seconds(sound.duration, sound.time_base));
    }
}

}  // namespace

void check_end(AVFormatContext& context, std::int64_t size, const FfmpegLog& log, std::int64_t last_end,
               const std::optional<WavSize>& cut_wav) {
    check_containers(context, size, log);
    if ((context.error_recognition & AV_EF_IGNORE_ERR) != 0) {
        return;
    }
    check_bytes(context, size, cut_wav);
    if (last_end != AV_NOPTS_VALUE) {
        check_samples(context, last_end);
    }
}

}  // namespace spdl
