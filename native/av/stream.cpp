#include "av/stream.h"

#include <cmath>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

#include "ffmpeg/times.h"

namespace spdl {
namespace {

constexpr int kQuarter = 90;
constexpr int kFull = 360;

const std::uint8_t* display_matrix(const AVStream& stream) {
#if LIBAVCODEC_VERSION_INT >= AV_VERSION_INT(60, 31, 102)
    const AVCodecParameters& parameters = *stream.codecpar;
    const AVPacketSideData* const data =
        av_packet_side_data_get(parameters.coded_side_data, parameters.nb_coded_side_data, AV_PKT_DATA_DISPLAYMATRIX);
    return data == nullptr ? nullptr : data->data;
#else
    return av_stream_get_side_data(&stream, AV_PKT_DATA_DISPLAYMATRIX, nullptr);
#endif
}

int rotation_of(const AVStream& stream) {
    const std::uint8_t* const bytes = display_matrix(stream);
    if (bytes == nullptr) {
        return 0;
    }
    std::int32_t matrix[9];
    std::memcpy(matrix, bytes, sizeof(matrix));
    const double degrees = av_display_rotation_get(matrix);
    if (std::isnan(degrees)) {
        return 0;
    }
    // libav counts counterclockwise.
    const int turns = static_cast<int>(std::lround(-degrees / kQuarter)) % (kFull / kQuarter);
    return (turns * kQuarter + kFull) % kFull;
}

// Returns the time, or none if it is one that no clip can have.
std::int64_t sane(std::int64_t time) {
    return time >= -kMaxTime && time <= kMaxTime ? time : AV_NOPTS_VALUE;
}

Times times_of(const AVInputFormat& format, const AVCodecParameters& video) {
    if (is_raw(format)) {
        return video.video_delay > 0 ? Times::kNone : Times::kShown;
    }
    const AVCodecDescriptor* const codec = avcodec_descriptor_get(video.codec_id);
    const bool may_reorder = codec != nullptr && (codec->props & AV_CODEC_PROP_REORDER) != 0;
    return may_reorder && std::strcmp(format.name, "avi") == 0 ? Times::kDecoded : Times::kShown;
}

}  // namespace

bool is_raw(const AVInputFormat& format) {
    // What libavformat's demuxers of such streams have in common is an option. Those of images, one after the other,
    // have names that end alike; where a seek leads them, they do not know which picture it is.
    const AVClass* options = format.priv_class;
    const std::string_view name = format.name;
    return (format.flags & AVFMT_NOTIMESTAMPS) != 0 || name.ends_with("_pipe") || name == "image2pipe" ||
           (options != nullptr &&
            av_opt_find(&options, "raw_packet_size", nullptr, 0, AV_OPT_SEARCH_FAKE_OBJ) != nullptr);
}

std::string Stream::describe() const {
    return std::string(medium_name(medium)) + " stream " + std::to_string(index) + " (" +
           avcodec_get_name(parameters->codec_id) + ")";
}

Stream with(const Stream& stream, CodecParametersPtr parameters) {
    return {stream.medium,         stream.index,          std::move(parameters), stream.time_base, stream.frame_rate,
            stream.start,          stream.duration,       stream.num_frames,     stream.times,     stream.tells_keys,
            stream.makes_up_times, stream.counts_samples, stream.rotation};
}

std::shared_ptr<const Stream> with(const std::shared_ptr<const Stream>& stream, Times times) {
    if (stream->times == times) {
        return stream;
    }
    Stream changed = with(*stream, copy_parameters(*stream->parameters));
    changed.times = times;
    return std::make_shared<const Stream>(std::move(changed));
}

CodecParametersPtr copy_parameters(const AVCodecParameters& parameters) {
    CodecParametersPtr copy(avcodec_parameters_alloc());
    if (!copy || avcodec_parameters_copy(copy.get(), &parameters) < 0) {
        throw std::bad_alloc();
    }
    return copy;
}

Stream describe_stream(AVFormatContext& container, int index) {
    AVStream& stream = *container.streams[index];
    const bool sound = stream.codecpar->codec_type == AVMEDIA_TYPE_AUDIO;
    CodecParametersPtr parameters = copy_parameters(*stream.codecpar);
    if (parameters->codec_id == AV_CODEC_ID_MJPEG && is_raw(*container.iformat)) {
        // No header says how high two fields are together.
        parameters->field_order = AV_FIELD_PROGRESSIVE;
    }
    return {sound ? Medium::kAudio : Medium::kVideo,
            index,
            std::move(parameters),
            stream.time_base,
            sound ? AVRational{0, 1} : av_guess_frame_rate(&container, &stream, nullptr),
            sane(stream.start_time),
            sane(stream.duration),
            stream.nb_frames,
            sound ? Times::kShown : times_of(*container.iformat, *stream.codecpar),
            true,
            (container.iformat->flags & AVFMT_TS_DISCONT) != 0,
            false,
            sound ? 0 : rotation_of(stream)};
}

}  // namespace spdl
