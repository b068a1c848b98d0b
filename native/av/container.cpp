#include "av/container.h"

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include "av/file_end.h"
#include "av/flac_frame.h"
#include "av/frame_sync.h"
#include "av/key_frame.h"
#include "av/plain_wav.h"
#include "av/promised_end.h"
#include "av/sound_front.h"
#include "core/interrupt.h"
#include "core/media_error.h"
#include "ffmpeg/ffmpeg_log.h"
#include "ffmpeg/times.h"

namespace spdl {
namespace {

constexpr const char* kRead = "cannot read the file";

AVMediaType media_type(Medium medium) {
    return medium == Medium::kAudio ? AVMEDIA_TYPE_AUDIO : AVMEDIA_TYPE_VIDEO;
}

// Reads on. What the demuxer of MPEG-TS passes by in search of a packet, it tells as a reason to try again.
int read_frame(AVFormatContext& context, AVPacket& packet) {
    int code = AVERROR(EAGAIN);
    for (std::int64_t before = -1; code == AVERROR(EAGAIN) && avio_tell(context.pb) > before;) {
        before = avio_tell(context.pb);
        code = av_read_frame(&context, &packet);
    }
    return code;
}

void check_times(const AVPacket& packet) {
    for (const std::int64_t time : {packet.pts, packet.dts, packet.duration}) {
        check_time(time, "cannot read the file: the time of a packet");
    }
}

// Throws if a packet could not be read.
void check_read(int code, const FfmpegLog& log) {
    try {
        log.check(code, kRead);
    } catch (const MediaError& error) {
        throw DamageError(error.what());
    }
}

}  // namespace

Container::Container(std::unique_ptr<ByteSource> source, DemuxOptions options, Probing probing, bool costly)
    : options_(std::move(options)), probing_(probing), costly_(costly), source_(std::move(source)) {
    if (source_->size() == 0) {
        throw MediaError(std::string(kRead) + ": there are no bytes in it");
    }
    auto pages = std::make_unique<OggPages>(front_with_sound(std::move(source_)));
    pages_ = pages.get();
    source_ = std::move(pages);
    cut_wav_ = find_cut_wav(*source_);
    plain_wav_ = is_plain_wav(*source_);
    open();
}

void Container::open() {
    broken_ = true;
    context_.reset();
    // Reading in larger pieces than the images' default saves calls.
    constexpr int kLeastBuffer = 1 << 16;
    input_ = std::make_unique<Input>(*source_, std::max(options_.buffer_size, kLeastBuffer));
    auto [opened, indexed] = open_format(*input_, options_, probing_, plain_wav_);
    context_ = std::move(opened);
    indexed_ = std::move(indexed);
    broken_ = false;
    at_start_ = true;
    last_end_ = AV_NOPTS_VALUE;
    pending_.clear();
    ahead_.clear();
    doubtful_.clear();
    clocks_.clear();
    streams_.clear();
    for (int i = 0; i < num_streams(); ++i) {
        describe(i);
    }
    discard_others();
}

std::optional<int> Container::best_stream(Medium medium) {
    const int index = av_find_best_stream(&context(), media_type(medium), -1, -1, nullptr, 0);
    return index < 0 ? std::nullopt : std::optional(index);
}

std::shared_ptr<const Stream> Container::stream(int index) {
    if (index < 0 || index >= num_streams()) {
        throw MediaError("there is no stream " + std::to_string(index) + ": the file has " +
                         std::to_string(num_streams()));
    }
    if (std::shared_ptr<const Stream> described = describe(index)) {
        return described;
    }
    const char* const name = av_get_media_type_string(context().streams[index]->codecpar->codec_type);
    throw MediaError("stream " + std::to_string(index) + " is neither audio nor video but " +
                     (name == nullptr ? "unknown" : name));
}

// Returns what was known of a stream when it was found; null if it is neither audio nor video. FFmpeg changes its mind
// about the rate and the order of pictures while packets are read, so that reading again would count otherwise.
std::shared_ptr<const Stream> Container::describe(int index) {
    const AVMediaType type = context().streams[index]->codecpar->codec_type;
    if (type != AVMEDIA_TYPE_AUDIO && type != AVMEDIA_TYPE_VIDEO) {
        return nullptr;
    }
    const auto [found, is_new] = streams_.try_emplace(index);
    if (is_new) {
        Stream described = describe_stream(context(), index);
        described.tells_keys = tells_keys(index);
        found->second = std::make_shared<const Stream>(std::move(described));
    }
    return found->second;
}

// AVI tells key frames in its index only, and its demuxer takes all packets that are not there for such.
bool Container::tells_keys(int stream) {
    const AVStream& described = *context().streams[stream];
    if (std::string_view(context().iformat->name) != "avi" ||
        containers_need_not_tell_keys(described.codecpar->codec_id)) {
        return true;
    }
    const auto number = static_cast<std::size_t>(stream);
    return number < indexed_.size() && indexed_[number] >= std::max<std::int64_t>(described.nb_frames, 1);
}

// The index of MP4 tells the places, times and key frames of packets, unless there are fragments. FFmpeg looks into
// packets of other codecs than these even so.
bool Container::tells_packets(int stream) {
    const AVStream& described = *context().streams[stream];
    const AVCodecID codec = described.codecpar->codec_id;
    const bool told = codec == AV_CODEC_ID_H264 || codec == AV_CODEC_ID_HEVC || codec == AV_CODEC_ID_AV1;
    const auto number = static_cast<std::size_t>(stream);
    return told && has_index(context()) && described.nb_frames > 0 && number < indexed_.size() &&
           indexed_[number] == described.nb_frames && source_->size() > 0 &&
           !has_fragments(*context().pb, source_->size());
}

bool Container::leave_out_contents(int stream) {
    if (!costly_ || !tells_packets(stream)) {
        return false;
    }
    key_places_.clear();
    AVStream* const described = context().streams[stream];
    for (int entry = 0; entry < avformat_index_get_entries_count(described); ++entry) {
        const AVIndexEntry* const packet = avformat_index_get_entry(described, entry);
        if ((packet->flags & AVINDEX_KEYFRAME) != 0) {
            key_places_.insert(packet->pos);
        }
    }
    input_->leave_out(true);
    return true;
}

std::int64_t Container::period(int stream) {
    return clock_period(*context().streams[stream]);
}

std::optional<std::int64_t> Container::promised_end(int stream) {
    const AVStream& described = *context().streams[stream];
    if (context().duration_estimation_method != AVFMT_DURATION_FROM_STREAM || described.duration <= 0) {
        return std::nullopt;
    }
    return described.duration + (described.start_time == AV_NOPTS_VALUE ? 0 : described.start_time);
}

// An error may have kept it from being opened again.
AVFormatContext& Container::context() {
    if (!context_) {
        source_->seek(0);
        open();
    }
    return *context_;
}

// The header of MP4 that tells of packets says on one clock when they are shown. Where an edit list has several parts
// of a video shown, decoding goes back for what the next part builds on.
bool Container::has_one_clock(const AVStream& stream) {
    return is_raw(*context().iformat) || (has_index(context()) && stream.nb_frames > 0);
}

void Container::discard_others() {
    for (int i = 0; i < static_cast<int>(context_->nb_streams); ++i) {
        const bool wanted = selected_.empty() || selected_.contains(i);
        context_->streams[i]->discard = wanted ? AVDISCARD_DEFAULT : AVDISCARD_ALL;
    }
}

void Container::select(const std::set<int>& streams) {
    mend();
    ++generation_;
    selected_ = streams;
    discard_others();
    for (std::deque<PacketPtr>* const packets : {&ahead_, &doubtful_, &pending_}) {
        std::erase_if(*packets, [&](const PacketPtr& packet) { return !streams.contains(packet->stream_index); });
    }
}

PacketPtr Container::read_any_packet() {
    const FfmpegLog log;
    PacketPtr packet = make_packet();
    do {
        check_interrupt();
        av_packet_unref(packet.get());
        at_start_ = false;
        int code = read_frame(context(), *packet);
        broken_ = (code < 0 && code != AVERROR_EOF) || input_->failed();
        input_->rethrow();
        if (code < 0 && has_all(context(), last_end_)) {
            code = AVERROR_EOF;
        }
        if (code == AVERROR_EOF) {
            input_->leave_out(false);
            check_end(context(), source_->size(), log, last_end_, cut_wav_);
            input_->rethrow();
            check_last_pages();
            return nullptr;
        }
        check_read(code, log);
    } while (!selected_.contains(packet->stream_index) ||
             is_inner_header(*packet, context().streams[packet->stream_index]->codecpar->codec_id));
    check_pages(*packet);
    if (input_->leaves_out()) {
        // FFmpeg has looked for key frames in the contents that are not there.
        packet->flags &= ~AV_PKT_FLAG_KEY;
        packet->flags |= key_places_.contains(packet->pos) ? AV_PKT_FLAG_KEY : 0;
        av_buffer_unref(&packet->buf);
        packet->data = nullptr;
    }
    const AVStream& stream = *context().streams[packet->stream_index];
    if (format() == std::string_view("flac")) {
        tell_times(*packet, stream);
    }
    check_times(*packet);
    if (stream.codecpar->codec_type == AVMEDIA_TYPE_VIDEO && !has_one_clock(stream)) {
        const bool looks_up = (context().iformat->flags & AVFMT_TS_DISCONT) != 0;
        JoinedTimes& clock = clocks_.try_emplace(packet->stream_index, looks_up).first->second;
        clock.follow(*packet, stream);
        joined_ = joined_ || clock.joined();
        check_times(*packet);
    }
    // Of joined files, the later ones may be shorter.
    last_end_ = packet->pts == AV_NOPTS_VALUE ? last_end_ : std::max(last_end_, packet->pts + packet->duration);
    return packet;
}

PacketPtr Container::read() {
    if (pending_.empty()) {
        return read_packet();
    }
    PacketPtr packet = std::move(pending_.front());
    pending_.pop_front();
    return packet;
}

std::optional<double> Container::duration() {
    if (context().duration == AV_NOPTS_VALUE) {
        return std::nullopt;
    }
    return static_cast<double>(context().duration) / AV_TIME_BASE;
}

}  // namespace spdl
