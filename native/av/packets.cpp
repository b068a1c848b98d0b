#include "av/packets.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

#include "av/samples.h"
#include "av/video_index.h"
#include "core/errors.h"
#include "ffmpeg/ffmpeg_log.h"

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
    // libavformat's demuxers of such streams share an option. The demuxers of image sequences have names with the same
    // ending; after a seek they do not know the number of the picture.
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
    Stream changed = stream;
    changed.parameters = std::move(parameters);
    return changed;
}

std::shared_ptr<const Stream> with(const std::shared_ptr<const Stream>& stream, Times times) {
    if (stream->times == times) {
        return stream;
    }
    Stream changed = *stream;
    changed.times = times;
    return std::make_shared<const Stream>(std::move(changed));
}

CodecParametersPtr copy_parameters(const AVCodecParameters& parameters) {
    CodecParametersPtr copy = make_parameters();
    require_memory(avcodec_parameters_copy(copy.get(), &parameters) >= 0);
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

namespace {

// Returns the sign of `time - moment`.
int compare(std::int64_t time, AVRational time_base, const Moment& moment) {
    return av_compare_ts(time, time_base, moment.numerator, {1, moment.denominator});
}

}  // namespace

bool is_empty(const AVPacket& packet) {
    return packet.size == 0 && packet.side_data_elems == 0;
}

bool is_hidden(const AVPacket& packet, AVCodecID codec) {
    // Some encoders of VP8 send pictures that are never shown, for others to build on. The packet's first byte says so
    // (RFC 6386, 9.1).
    constexpr unsigned kShown = 0x10;
    const bool vp8 = codec == AV_CODEC_ID_VP8 && packet.size > 0 && (packet.data[0] & kShown) == 0;
    return vp8 || is_empty(packet) || (packet.flags & AV_PKT_FLAG_DISCARD) != 0;
}

std::int64_t time_of(const AVPacket& packet) {
    return packet.pts != AV_NOPTS_VALUE ? packet.pts : packet.dts;
}

bool is_before(std::int64_t time, AVRational time_base, const TimeWindow& window) {
    return time != AV_NOPTS_VALUE && window.start && compare(time, time_base, *window.start) < 0;
}

bool is_after(std::int64_t time, AVRational time_base, const TimeWindow& window) {
    return time != AV_NOPTS_VALUE && window.end && compare(time, time_base, *window.end) >= 0;
}

std::int64_t sample_at(const Moment& moment, int rate) {
    return av_rescale_q_rnd(moment.numerator, {1, moment.denominator}, {1, rate}, AV_ROUND_UP);
}

std::int64_t delay_of(const Stream& stream) {
    const int frames = stream.medium == Medium::kVideo ? stream.parameters->video_delay : 0;
    return stream.frame_rate.num > 0 ? av_rescale_q(frames, av_inv_q(stream.frame_rate), stream.time_base) : frames;
}

bool is_behind(const AVPacket& packet, const Stream& stream, const TimeWindow& window) {
    // A frame is never shown before it is decoded.
    if (is_counted(stream)) {
        return false;
    }
    const std::int64_t ahead = packet.pts == AV_NOPTS_VALUE ? delay_of(stream) : 0;
    return packet.dts != AV_NOPTS_VALUE && is_after(packet.dts - ahead, stream.time_base, window);
}

std::size_t PacketList::bytes() const {
    std::size_t size = 0;
    for (const PacketPtr& packet : packets) {
        size += static_cast<std::size_t>(packet->size);
    }
    return size;
}

std::vector<std::int64_t> PacketList::times(bool all) const {
    std::vector<std::int64_t> found;
    found.reserve(packets.size());
    if (all) {
        std::ranges::transform(packets, std::back_inserter(found),
                               [](const PacketPtr& each) { return time_of(*each); });
        return found;
    }
    const VideoIndex index = VideoIndex::of(*this);
    for (std::size_t frame = 0; frame < index.num_frames(); ++frame) {
        found.push_back(index.time(frame));
    }
    return found;
}

PacketList PacketList::clone() const {
    PacketList copy{stream, {}, window};
    copy.packets.reserve(packets.size());
    for (const PacketPtr& packet : packets) {
        copy.packets.push_back(reference(*packet));
    }
    return copy;
}

namespace {

std::int64_t lead_in(const AVCodecParameters& sound) {
    // MP3 takes bits from up to 511 bytes back, which are 15 packets of the lowest bit rate. What Opus predicts from
    // the past takes half a second to fade; the 80 ms that its specification asks for leave an error of up to 0.002.
    constexpr int kUsualPackets = 4;
    constexpr int kMp3Packets = 17;
    constexpr int kUsualSamples = 2048;
    if (sound.codec_id == AV_CODEC_ID_OPUS) {
        return sound.sample_rate / 2;
    }
    const int packet = sound.frame_size > 0 ? sound.frame_size : kUsualSamples;
    return std::int64_t{packet} * (sound.codec_id == AV_CODEC_ID_MP3 ? kMp3Packets : kUsualPackets);
}

}  // namespace

bool depends_on_all(const AVCodecParameters& sound) {
    // It draws random numbers for what is too faint to be stored.
    return sound.codec_id == AV_CODEC_ID_AC3;
}

LastPackets::LastPackets(const AVCodecParameters& sound)
    : least_(std::max<std::int64_t>(sound.seek_preroll, lead_in(sound))) {}

void LastPackets::add(PacketPtr packet, std::int64_t samples) {
    samples_ += samples;
    packets_.push_back({std::move(packet), samples});
    while (samples_ - packets_.front().samples >= least_) {
        samples_ -= packets_.front().samples;
        packets_.pop_front();
    }
}

PacketPtr LastPackets::take() {
    if (packets_.empty()) {
        return nullptr;
    }
    PacketPtr packet = std::move(packets_.front().packet);
    packets_.pop_front();
    return packet;
}

BitStreamFilter::BitStreamFilter(std::shared_ptr<const Stream> stream, const std::string& description)
    : what_("cannot apply the bitstream filter \"" + description + "\"") {
    const FfmpegLog log;
    AVBSFContext* created = nullptr;
    log.check(av_bsf_list_parse_str(description.c_str(), &created), what_.c_str());
    context_.reset(created);
    log.check(avcodec_parameters_copy(context_->par_in, stream->parameters.get()), what_.c_str());
    context_->time_base_in = stream->time_base;
    log.check(av_bsf_init(context_.get()), what_.c_str());
    Stream changed = with(*stream, copy_parameters(*context_->par_out));
    changed.time_base = context_->time_base_out;
    output_ = std::make_shared<const Stream>(std::move(changed));
}

void BitStreamFilter::add(PacketPtr packet, std::vector<PacketPtr>& finished) {
    if (is_empty(*packet)) {
        finished.push_back(std::move(packet));  // Filters would take it for the end.
        return;
    }
    const FfmpegLog log;
    log.check(av_bsf_send_packet(context_.get(), packet.get()), what_.c_str());
    receive(finished);
}

void BitStreamFilter::flush(std::vector<PacketPtr>& finished) {
    const FfmpegLog log;
    log.check(av_bsf_send_packet(context_.get(), nullptr), what_.c_str());
    receive(finished);
    av_bsf_flush(context_.get());
}

void BitStreamFilter::receive(std::vector<PacketPtr>& finished) {
    const FfmpegLog log;
    for (;;) {
        PacketPtr packet = make_packet();
        const int code = av_bsf_receive_packet(context_.get(), packet.get());
        if (code == AVERROR(EAGAIN) || code == AVERROR_EOF) {
            return;
        }
        log.check(code, what_.c_str());
        finished.push_back(std::move(packet));
    }
}

}  // namespace spdl
