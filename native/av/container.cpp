#include "av/container.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <utility>

#include "av/coded_pictures.h"
#include "av/demux_window.h"
#include "av/sound_feed.h"
#include "av/stream_decoder.h"
#include "core/bytes.h"
#include "core/errors.h"
#include "core/non_copyable.h"
#include "core/parallel.h"
#include "ffmpeg/ffmpeg_log.h"

namespace spdl {
namespace {

constexpr const char* kRead = "cannot read the file";

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
    // FFmpeg's lines about decoders that are not on the list.
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

bool has_others_than_keys(AVStream& stream) {
    for (int entry = 0; entry < avformat_index_get_entries_count(&stream); ++entry) {
        if ((avformat_index_get_entry(&stream, entry)->flags & AVINDEX_KEYFRAME) == 0) {
            return true;
        }
    }
    return false;
}

// Throws for a WAV file with unused bits in its samples, unless its source can seek and corrects what the header says:
// FFmpeg takes the used bits for the size of a sample, and reads noise.
void check_unused_bits(const AVFormatContext& context) {
    if (context.nb_streams == 0 || context.pb->seekable != 0 || std::string_view(context.iformat->name) != "wav") {
        return;
    }
    const AVCodecParameters& sound = *context.streams[0]->codecpar;
    const int bits = av_get_bits_per_sample(sound.codec_id) * sound.ch_layout.nb_channels;
    const bool is_pcm = std::string_view(avcodec_get_name(sound.codec_id)).starts_with("pcm_");
    // It takes 16 and 24 bits in 32 for rare floats.
    const bool is_rare = sound.codec_id == AV_CODEC_ID_PCM_F16LE || sound.codec_id == AV_CODEC_ID_PCM_F24LE;
    if (is_rare || (is_pcm && sound.block_align > 0 && 8 * sound.block_align != bits)) {
        throw MediaError(
            std::string(kRead) + ": it is a WAV file of " + std::to_string(sound.block_align) +
            " bytes for each time, of which some bits are unused, and that is read only from a source that "
            "can seek: pass its bytes or its path");
    }
}

}  // namespace

bool has_index(const AVFormatContext& context) {
    return std::string_view(context.iformat->name).find("mp4") != std::string_view::npos;
}

OpenFormat open_format(Input& input, const DemuxOptions& options, Probing probing, bool plain_wav) {
    const AVInputFormat* format = options.format.empty() ? nullptr : &find_demuxer(options.format, "bytes");
    UnopenedPtr unopened = make_context(input);
    FfmpegLog log;
    int score = AVPROBE_SCORE_MAX;
    if (format == nullptr) {
        format = probe(*unopened, input, score, log);
    }
    LibavOptions format_options(options.format_options);
    if (plain_wav && format != nullptr && std::string_view(format->name) == "wav") {
        // At least one packet is looked at in any case.
        unopened->max_probe_packets = 1;
    }
    // On failure libav frees what it was given.
    AVFormatContext* given = unopened.release();
    const int opened = avformat_open_input(&given, nullptr, format, format_options.get());
    FormatContextPtr made(given);
    input.rethrow();
    check_opened(opened, log, score <= AVPROBE_SCORE_RETRY);
    check_unused_bits(*made);
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

namespace {

AVMediaType media_type(Medium medium) {
    return medium == Medium::kAudio ? AVMEDIA_TYPE_AUDIO : AVMEDIA_TYPE_VIDEO;
}

// Reads on. If the demuxer of MPEG-TS skips data in search of a packet, it returns a code to try again.
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

// AVI tells key frames in its index only, and its demuxer takes all packets that are not there for such. Nor is a
// container believed that tells all packets for key frames where most depend on others: FFmpeg's encoder of RPZA marks
// none, which MOV takes for all, and Matroska marks all of GIF.
bool Container::tells_keys(int stream) {
    AVStream& described = *context().streams[stream];
    const AVCodecID codec = described.codecpar->codec_id;
    const std::string_view format = context().iformat->name;
    if (codec == AV_CODEC_ID_RPZA || (codec == AV_CODEC_ID_GIF && format != "gif")) {
        return has_others_than_keys(described);
    }
    if (format != "avi" || containers_need_not_tell_keys(codec)) {
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

// The header of MP4 that describes packets gives their display times on one clock. If an edit list shows several parts
// of a video, decoding goes back for the frames that the next part depends on.
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
    repeat_palette(*packet);
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

// The demuxers of QuickTime and AVI give the palette of a video with its first packet, which decoding may not begin
// with.
void Container::repeat_palette(AVPacket& packet) {
    std::size_t size = 0;
    if (const std::uint8_t* const palette = av_packet_get_side_data(&packet, AV_PKT_DATA_PALETTE, &size)) {
        palettes_[packet.stream_index].assign(palette, palette + size);
        return;
    }
    const auto known = palettes_.find(packet.stream_index);
    if (known == palettes_.end() || (packet.flags & AV_PKT_FLAG_KEY) == 0) {
        return;
    }
    std::uint8_t* const added = av_packet_new_side_data(&packet, AV_PKT_DATA_PALETTE, known->second.size());
    require_memory(added != nullptr);
    std::ranges::copy(known->second, added);
}

// Reads the first packet of a video that may have a palette before a seek would skip it.
void Container::look_for_palette(int stream) {
    constexpr int kBits = 0x1f;  // QuickTime marks gray above these.
    const AVCodecParameters& video = *context().streams[stream]->codecpar;
    const int bits = video.bits_per_coded_sample & kBits;
    if (!at_start_ || video.codec_type != AVMEDIA_TYPE_VIDEO || bits < 1 || bits > 8 || palettes_.contains(stream)) {
        return;
    }
    for (PacketPtr packet = make_packet(); read_frame(context(), *packet) >= 0; av_packet_unref(packet.get())) {
        if (packet->stream_index == stream) {
            repeat_palette(*packet);
            break;
        }
    }
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

// Seeking in a container, and whether it is possible.
namespace {

// libavformat makes up the times of packets that have none. It cannot know them after a seek, and on the last page of
// an Ogg file they are wrong. As long as this object lives, such packets keep no time.
class NoTimesMadeUp : NonCopyable {
  public:
    explicit NoTimesMadeUp(AVFormatContext& context) : context_(context), before_(context.flags) {
        if (std::string_view(context.iformat->name) == "ogg") {
            context.flags |= AVFMT_FLAG_NOFILLIN;
        }
    }
    ~NoTimesMadeUp() { context_.flags = before_; }

  private:
    AVFormatContext& context_;
    int before_;
};

// Returns whether the options make libavformat show all of a track, whatever its edit list says.
bool ignores_edits(const DemuxOptions& options) {
    return std::ranges::any_of(options.format_options, [](const auto& option) {
        return (option.first == "ignore_editlist" && option.second != "0") ||
               (option.first == "advanced_editlist" && option.second == "0");
    });
}

}  // namespace

bool Container::can_seek(int stream) {
    return !is_raw(*context().iformat) && tells_keys(stream) && !joined_ && !is_led_astray(stream);
}

bool Container::is_led_astray(int stream) {
    if (!has_index(context()) || reads_once()) {
        return false;
    }
    const auto [found, is_new] = astray_.try_emplace(stream);
    if (is_new) {
        found->second = has_wrong_segment_index(*context().pb, source_->size(), context().streams[stream]->id);
    }
    return found->second;
}

std::int64_t Container::shown_parts(int stream) {
    if (!has_index(context()) || reads_once() || ignores_edits(options_)) {
        return 0;
    }
    const auto [found, is_new] = parts_.try_emplace(stream);
    if (is_new) {
        found->second = count_shown_parts(*context().pb, source_->size(), context().streams[stream]->id);
    }
    return found->second;
}

void Container::check_one_clock(int stream) {
    const std::int64_t parts = shown_parts(stream);
    const bool edited = parts > 1;
    const bool fragmented = has_index(context()) && !reads_once() && has_fragments(*context().pb, source_->size());
    if (!edited && (!fragmented || is_single())) {
        return;
    }
    throw MediaError("cannot tell which sample is when in the " + this->stream(stream)->describe() + ": " +
                     (edited ? "its edit list shows " + std::to_string(parts) + " parts of it one after the other"
                             : std::string("several files of fragments were put one behind the other")) +
                     ", and the sound of these overlaps. Load all of it, without a window: load_audio gives what there "
                     "is" +
                     (edited ? ". Or read the sound as it is stored, without the edits: "
                               "demux_config(format_options={\"ignore_editlist\": \"1\"})"
                             : ". Or split the file where the second one begins"));
}

bool Container::leads_to_times(int stream) {
    const std::string_view format = context().iformat->name;
    if (!has_index(context()) && format.find("matroska") == std::string_view::npos) {
        return false;
    }
    return !shows_parts(stream) && is_single();
}

bool Container::is_single() {
    if (!single_) {
        single_ = reads_once() || !may_be_several(context(), source_->size());
    }
    return *single_;
}

bool Container::jump(int stream, std::int64_t to, int flags) {
    pending_.clear();
    ahead_.clear();
    doubtful_.clear();
    clocks_.clear();
    const FfmpegLog log;
    look_for_palette(stream);
    at_start_ = false;
    last_end_ = AV_NOPTS_VALUE;
    if (av_seek_frame(&context(), stream, to, flags) < 0) {
        input_->rethrow();
        return false;
    }
    return true;
}

// The demuxer of a file that is nothing but frames finds the next one wherever it begins to look.
bool Container::go_near(int stream, std::int64_t time, std::int64_t byte) {
    mend();
    return is_raw(*context().iformat) ? jump(stream, byte, AVSEEK_FLAG_BYTE) : jump(stream, time, AVSEEK_FLAG_BACKWARD);
}

bool Container::try_seek(int stream, std::int64_t time, std::int64_t needed) {
    if (!jump(stream, time, AVSEEK_FLAG_BACKWARD)) {
        return false;
    }
    const NoTimesMadeUp honest(context());
    const std::shared_ptr<const Stream> described = this->stream(stream);
    // Not every demuxer finds the right place, so look at the packets that come from there.
    while (PacketPtr packet = read_packet()) {
        const bool wanted = packet->stream_index == stream;
        const std::int64_t shown = time_of(*packet);
        const bool key = wanted && is_key(*packet, *described);
        pending_.push_back(std::move(packet));
        if (wanted) {
            return key && shown != AV_NOPTS_VALUE && shown <= needed;
        }
    }
    return false;
}

void Container::seek(int stream, std::int64_t time) {
    mend();
    if (!can_seek(stream)) {
        rewind();
        return;
    }
    const AVStream& described = *context().streams[stream];
    // Seconds to go further back if a demuxer does not find a key frame in time.
    for (const int seconds : {0, 1, 5, 20}) {
        const std::int64_t back = av_rescale_q(seconds, {1, 1}, described.time_base);
        const bool at_start = described.start_time != AV_NOPTS_VALUE && time - back <= described.start_time;
        if (at_start && !(seconds == 0 && has_index(*context_))) {
            break;
        }
        if (try_seek(stream, time - back, time)) {
            return;
        }
    }
    rewind();
}

// libav remembers an error of its input, and would end there again.
void Container::mend() {
    if (broken_) {
        rewind();
    }
}

void Container::rewind() {
    if (at_start_ && !broken_) {
        return;
    }
    if (reads_once()) {
        throw MediaError(
            "the file can be read once only, as it has no seek(): read it into memory first, or demux all streams at "
            "once with streaming_demux");
    }
    // Negative times, and demuxers that seek by guessing, make opening it again the one sure way.
    source_->seek(0);
    open();
}

std::shared_ptr<const Stream> Container::begin(int index, const TimeWindow& window) {
    mend();
    std::shared_ptr<const Stream> found = stream(index);
    select({index});
    if (!window.start || reads_once()) {
        rewind();
        return found;
    }
    const std::int64_t start =
        av_rescale_q_rnd(window.start->numerator, {1, window.start->denominator}, found->time_base,
                         static_cast<AVRounding>(AV_ROUND_DOWN | AV_ROUND_PASS_MINMAX));
    seek(index, start);
    return found;
}

// How packets are read that may be after the end of what there is: of sound, or of a file that was cut off.
namespace {

// Returns whether a JPEG has the mark that ends it: ISO/IEC 10918-1, table B.1. Within the picture there is no such
// mark, but there may be a smaller picture in front of it.
bool has_end(Bytes jpeg) {
    constexpr std::array<std::uint8_t, 2> kScan{0xff, 0xda};
    constexpr std::array<std::uint8_t, 2> kEnd{0xff, 0xd9};
    const auto scan = std::ranges::find_end(jpeg, kScan).begin();
    return !std::ranges::search(scan, jpeg.end(), kEnd.begin(), kEnd.end()).empty();
}

}  // namespace

// Returns whether a picture is not whole, as far as it shows at once. A picture of NUT, whose demuxer does not say so,
// may be whole if nothing follows it. Of pictures without a container the mark is missing that others have.
bool Container::may_be_cut(const AVPacket& packet) {
    const AVFormatContext& file = context();
    const AVCodecParameters& video = *file.streams[packet.stream_index]->codecpar;
    if (video.codec_type != AVMEDIA_TYPE_VIDEO || (file.error_recognition & AV_EF_IGNORE_ERR) != 0) {
        return false;
    }
    if (video.codec_id == AV_CODEC_ID_MJPEG && is_raw(*file.iformat)) {
        const bool ends = has_end({packet.data, static_cast<std::size_t>(packet.size)});
        marks_ends_ = marks_ends_ || ends;
        return marks_ends_ && !ends;
    }
    return (packet.flags & AV_PKT_FLAG_CORRUPT) != 0 || ends_nut(packet);
}

bool Container::ends_nut(const AVPacket& packet) {
    return format() == std::string_view("nut") && packet.pos >= 0 && source_->size() > 0 &&
           packet.pos + packet.size >= source_->size();
}

// Throws if the file was cut off within the last packet, which may be cut.
void Container::check_last(const AVPacket& packet) {
    if (!ends_nut(packet) || ends_within_nut_packet(*source_, packet.pos)) {
        throw DamageError(
            "cannot read the file: it ends in the middle of a packet. A window that ends before can be read. To take "
            "what there is, pass demux_config(format_options={\"err_detect\": \"ignore_err\"})");
    }
}

// Bytes that no sound begins with follow all sound, or else are damage, which the decoder reports. A picture that is
// not whole is either damaged, or the last one of a file that was cut off.
PacketPtr Container::read_packet() {
    while (ahead_.empty()) {
        PacketPtr packet = read_any_packet();
        if (!packet) {
            ahead_ = std::exchange(doubtful_, {});
            if (ahead_.empty() || !may_begin_sound(*ahead_.back(), context())) {
                ahead_.clear();
                return nullptr;
            }
            check_last(*ahead_.back());
            break;
        }
        cut_to_blocks(*packet, context());
        const bool sound = may_begin_sound(*packet, context());
        if (sound) {
            ahead_.swap(doubtful_);
        }
        (sound && !may_be_cut(*packet) ? ahead_ : doubtful_).push_back(std::move(packet));
    }
    PacketPtr packet = std::move(ahead_.front());
    ahead_.pop_front();
    return packet;
}

void Container::check_pages(const AVPacket& packet) {
    if (const auto loss = pages_->loss(packet.stream_index, packet.pos)) {
        refuse(*loss, packet.stream_index);
    }
}

void Container::check_last_pages() {
    for (const int stream : selected_) {
        if (const auto loss = pages_->loss(stream)) {
            refuse(*loss, stream);
        }
    }
}

// Throws, unless the options say to read on after lost pages.
void Container::refuse(const OggPages::Loss& loss, int stream) {
    if ((context().error_recognition & AV_EF_IGNORE_ERR) != 0) {
        return;
    }
    std::string where = " before byte " + std::to_string(loss.page);
    if (selected_.size() == 1 && last_end_ != AV_NOPTS_VALUE) {
        std::array<char, 32> seconds{};
        const double found = static_cast<double>(last_end_) * av_q2d(context().streams[stream]->time_base);
        std::snprintf(seconds.data(), seconds.size(), ", behind %.3f s", found);
        where += seconds.data();
    }
    throw DamageError("cannot read the file: pages of stream " + std::to_string(stream) + " are damaged or missing" +
                      where +
                      ". A window that ends before can be read. To read on behind them, pass "
                      "demux_config(format_options={\"err_detect\": \"ignore_err\"})");
}

}  // namespace spdl
