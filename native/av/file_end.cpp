#include "av/file_end.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "av/file_peek.h"
#include "av/packet_samples.h"
#include "av/promised_end.h"
#include "av/promised_sound.h"
#include "core/media_error.h"
#include "ffmpeg/times.h"

namespace spdl {
namespace {

// The packets of MPEG-TS have one size throughout a file, and all begin with the same byte. What has another behind the
// last one is something else.
bool has_cut_packet(AVFormatContext& context, std::int64_t size) {
    constexpr std::uint8_t kSync = 0x47;
    constexpr std::int64_t kWithTime = 192;  // Four bytes of it in front of each packet.
    std::int64_t packet = 0;
    if (context.iformat->name != std::string_view("mpegts") ||
        av_opt_get_int(context.priv_data, "ts_packetsize", 0, &packet) < 0 || packet <= 0 || size <= 0 ||
        size % packet == 0) {
        return false;
    }
    const std::int64_t last = size - size % packet + (packet == kWithTime ? 4 : 0);
    Peek file(*context.pb, size);
    std::array<std::uint8_t, 1> first{};
    std::array<std::uint8_t, 1> before{};
    return last >= size ||
           (file.read(last, first) && first[0] == kSync && file.read(last - packet, before) && before[0] == kSync);
}

// Demuxers that notice it say so in the log only, and end as if the file were whole; that of MPEG-TS says nothing.
void check_containers(AVFormatContext& context, std::int64_t size, const FfmpegLog& log) {
    const std::string& line = log.line();
    const bool said = line.find("prematurely") != std::string::npos || line.find("truncated") != std::string::npos;
    if (said || has_cut_packet(context, size) || ends_early(context, size)) {
        throw DamageError(std::string("cannot read the file: it ends in the middle") +
                          (line.empty() ? "" : " (FFmpeg: " + line + ")") + ". A window that ends before can be read");
    }
}

[[noreturn]] void raise_cut(const std::string& found, const std::string& promised, const char* what = "sound") {
    throw DamageError("the file ends after " + found + " of " + what + ", but its header says " + promised +
                      ": it is cut off. To take what there is, pass "
                      "demux_config(format_options={\"err_detect\": \"ignore_err\"})");
}

// The headers of these say how many bytes of sound there are. For WAV, FFmpeg corrects what it says.
void check_bytes(AVFormatContext& context, std::int64_t size, const std::optional<WavSize>& cut_wav) {
    const std::string_view format = context.iformat->name;
    const bool wav = format == "wav";
    const std::optional<WavSize> cut = wav ? cut_wav : find_cut_sound(context, size);
    if (!cut) {
        return;
    }
    // Blocks of coded sound have no size in samples that a part of one could be told in.
    const std::int64_t block = context.nb_streams == 1 ? bytes_of_sample(*context.streams[0]->codecpar) : 0;
    if (block == 0) {
        // Those of ASF may be of videos, too.
        raise_cut(std::to_string(cut->present) + " bytes", std::to_string(cut->promised),
                  format.starts_with("asf") ? "packets" : "sound");
    }
    // The sound of some files ends within a sample. There is nothing to miss of it.
    if (const std::int64_t found = cut->present / block, promised = cut->promised / block; found < promised) {
        raise_cut(std::to_string(found) + " samples", std::to_string(promised));
    }
}

// Returns the samples of a file by its header, if that says it to the sample; otherwise nothing.
std::optional<std::int64_t> promised_samples(const AVFormatContext& context) {
    const std::string_view format = context.iformat->name;
    if ((format != "flac" && format != "wv" && format != "tta") ||
        context.duration_estimation_method != AVFMT_DURATION_FROM_STREAM || context.streams[0]->duration <= 0) {
        return std::nullopt;
    }
    const AVStream& sound = *context.streams[0];
    return rescale_time(sound.duration, sound.time_base, {1, sound.codecpar->sample_rate});
}

// Returns how many samples there were when the packet ended that was read last.
std::int64_t found_samples(const AVFormatContext& context, std::int64_t last_end) {
    const AVStream& sound = *context.streams[0];
    const std::int64_t start = sound.start_time == AV_NOPTS_VALUE ? 0 : sound.start_time;
    return rescale_time(last_end - start, sound.time_base, {1, sound.codecpar->sample_rate});
}

}  // namespace

void check_end(AVFormatContext& context, std::int64_t size, const FfmpegLog& log, std::int64_t last_end,
               const std::optional<WavSize>& cut_wav) {
    check_containers(context, size, log);
    if ((context.error_recognition & AV_EF_IGNORE_ERR) != 0) {
        return;
    }
    check_bytes(context, size, cut_wav);
    const std::optional<std::int64_t> promised = promised_samples(context);
    if (!promised || last_end == AV_NOPTS_VALUE) {
        return;
    }
    if (const std::int64_t found = found_samples(context, last_end); found < *promised) {
        raise_cut(std::to_string(found) + " samples", std::to_string(*promised));
    }
}

bool has_all(const AVFormatContext& context, std::int64_t last_end) {
    const std::optional<std::int64_t> promised = promised_samples(context);
    return promised && last_end != AV_NOPTS_VALUE && found_samples(context, last_end) >= *promised;
}

}  // namespace spdl
