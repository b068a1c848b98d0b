#include "av/stream_decoder.h"

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "av/samples.h"
#include "av/sound_headers.h"
#include "core/bytes.h"
#include "core/errors.h"
#include "core/geometry.h"
#include "core/image_items.h"
#include "core/parallel.h"
#include "ffmpeg/frames.h"

namespace spdl {
namespace {

const AVCodec* find_decoder(const Stream& stream, const std::string& name) {
    const AVCodecID codec = stream.parameters->codec_id;
    const AVCodec* const decoder =
        name.empty() ? avcodec_find_decoder(codec) : avcodec_find_decoder_by_name(name.c_str());
    if (decoder == nullptr) {
        throw MediaError((name.empty() ? "FFmpeg has no decoder for the " + stream.describe()
                                       : "FFmpeg has no decoder \"" + name + "\"") +
                         ". " + remedy_for_missing_part());
    }
    if (decoder->id != codec) {
        throw MediaError("the decoder \"" + name + "\" does not decode the " + stream.describe());
    }
    return decoder;
}

// Does what avcodec_open2() does. FFmpeg's own decoder of Speex takes frames of wide-band sound for twice their length
// since FFmpeg 7, by a number in the stream's header. So it gets none, and goes by a sample rate, as it does for Flash
// video.
int open_decoder(AVCodecContext& context, const AVCodec& decoder, AVDictionary** options) {
    constexpr int kHeader = 80;
    constexpr int kNarrowBand = 8000;
    constexpr std::uint32_t kUltraWideBand = 2;
    constexpr unsigned kFfmpeg7 = AV_VERSION_INT(61, 0, 0);
    if (avcodec_version() < kFfmpeg7 || std::string_view(decoder.name) != "speex" || context.extradata_size < kHeader ||
        std::memcmp(context.extradata, "Speex   ", 8) != 0) {
        return avcodec_open2(&context, &decoder, options);
    }
    const auto band = load_le<std::uint32_t>(context.extradata + 40);
    if (band > kUltraWideBand) {
        return AVERROR_INVALIDDATA;
    }
    av_freep(&context.extradata);
    context.extradata_size = 0;
    // The frames have the rate that the context has when they are decoded, which may be another one.
    const int rate = std::exchange(context.sample_rate, kNarrowBand << band);
    const int opened = avcodec_open2(&context, &decoder, options);
    context.sample_rate = rate;
    return opened;
}

// Returns whether FFmpeg's decoder can be made to verify the checksums of packets, and to report an error. Those of the
// others are left alone: of MPEG sound, known encoders write wrong ones.
bool checks_sums(AVCodecID codec) {
    switch (codec) {
        case AV_CODEC_ID_FLAC:
        case AV_CODEC_ID_WAVPACK:
        case AV_CODEC_ID_TTA:
        case AV_CODEC_ID_AC3:
        case AV_CODEC_ID_EAC3:
            return true;
        default:
            return false;
    }
}

}  // namespace

CodecContextPtr make_decoder(const Stream& stream, const DecodeOptions& options) {
    const FfmpegLog log;
    const AVCodec* const decoder = find_decoder(stream, options.decoder);
    CodecContextPtr context(avcodec_alloc_context3(decoder));
    require_memory(context != nullptr);
    const std::string tried = "cannot decode the " + stream.describe();
    log.check(avcodec_parameters_to_context(context.get(), stream.parameters.get()), tried.c_str());
    if (context->codec_id == AV_CODEC_ID_MJPEG && stream.parameters->field_order == AV_FIELD_PROGRESSIVE) {
        // FFmpeg would take the first picture for one of two fields if it is lower than the stream.
        context->width = 0;
        context->height = 0;
    }
    context->pkt_timebase = stream.time_base;
    context->framerate = stream.frame_rate;
    // Clips are decoded in parallel by the caller, one thread each.
    context->thread_count = 1;
    // FFmpeg counts the pixels of padded rows.
    constexpr std::int64_t kPadding = 64 * kMaxSide;
    context->max_pixels = options.max_pixels + kPadding;
    if (checks_sums(context->codec_id)) {
        context->err_recognition |= AV_EF_CRCCHECK | AV_EF_EXPLODE;
    }
    if (context->codec_id == AV_CODEC_ID_MJPEG) {
        // For a damaged picture FFmpeg shows the part that it has, and below it the old content of the memory.
        context->err_recognition |= AV_EF_EXPLODE;
    }
    LibavOptions decoder_options(options.decoder_options);
    log.check(open_decoder(*context, *decoder, decoder_options.get()), tried.c_str());
    decoder_options.check_all_used("decoder", decoder->name);
    return context;
}

namespace {

// Returns whether FFmpeg says with this line that what it makes of a packet is not what was encoded: that JPEG ends too
// early, or that checksums differ. Its result does not show that.
bool tells_damage(AVCodecID codec, std::string_view line) {
    const auto has = [&](std::string_view words) { return line.find(words) != std::string_view::npos; };
    switch (codec) {
        case AV_CODEC_ID_MJPEG:
            return has("overread");
        case AV_CODEC_ID_FFV1:
            return has("CRC mismatch");
        case AV_CODEC_ID_MLP:
        case AV_CODEC_ID_TRUEHD:
            return has("checksum") || has("parity check");
        default:
            return false;
    }
}

}  // namespace

LossWatch::LossWatch(const std::shared_ptr<const Stream>& stream) : stream_(stream) {
    if (stream->parameters->codec_id == AV_CODEC_ID_H264) {
        numbers_.emplace(*stream->parameters);
    }
}

bool LossWatch::is_watched() const {
    const AVCodecID codec = stream_->parameters->codec_id;
    return codec == AV_CODEC_ID_H264 || codec == AV_CODEC_ID_HEVC || codec == AV_CODEC_ID_MJPEG ||
           codec == AV_CODEC_ID_FFV1 || codec == AV_CODEC_ID_MLP || codec == AV_CODEC_ID_TRUEHD;
}

void LossWatch::see(const AVPacket& packet) {
    if (!is_watched()) {
        return;
    }
    packet_ = packet.pts;
    if (is_key(packet, *stream_)) {
        // It does not need what is missing before it.
        lost_before_ = (numbers_ && numbers_->misses_one(packet)) || lost_;
        lost_ = false;
        has_key_ = true;
        last_key_ = packet.pts;
        return;
    }
    lost_ = (numbers_ && numbers_->misses_one(packet) && has_key_) || lost_;
    // Frames shown before a key frame may depend on earlier ones.
    const bool leading = lost_before_ && packet_ < last_key_;
    if (packet_ != AV_NOPTS_VALUE && (lost_ || leading)) {
        doubtful_.insert(packet_);
    }
}

void LossWatch::hear(const std::string& line) {
    const AVCodecID codec = stream_->parameters->codec_id;
    if (!tells_damage(codec, line) && (codec != AV_CODEC_ID_HEVC || !has_key_ || line.empty() ||
                                       line.find("Could not find ref with POC") == std::string::npos)) {
        return;
    }
    lost_ = codec == AV_CODEC_ID_HEVC;
    if (packet_ != AV_NOPTS_VALUE) {
        doubtful_.insert(packet_);
    }
}

void LossWatch::reset() {
    if (numbers_) {
        numbers_->reset();
    }
    doubtful_.clear();
    packet_ = AV_NOPTS_VALUE;
    last_key_ = AV_NOPTS_VALUE;
    has_key_ = false;
    lost_ = false;
    lost_before_ = false;
}

namespace {

// Returns whether recordings of a codec are usual.
bool is_recorded(AVCodecID codec) {
    return codec == AV_CODEC_ID_H264 || codec == AV_CODEC_ID_HEVC || codec == AV_CODEC_ID_MPEG1VIDEO ||
           codec == AV_CODEC_ID_MPEG2VIDEO || codec == AV_CODEC_ID_MPEG4;
}

// Decodes from the beginning on. Calls `change` with each packet, and `take` with each frame until it returns false.
void decode(PacketFeed& feed, StreamDecoder& decoder, const std::function<void(AVPacket&)>& change,
            const std::function<bool(const AVFrame&)>& take) {
    feed.seek(0);
    for (bool ended = false;;) {
        while (const FramePtr frame = decoder.get()) {
            if (!take(*frame)) {
                return;
            }
        }
        if (ended) {
            return;
        }
        check_interrupt();
        const PacketPtr packet = feed.next();
        ended = !packet;
        if (packet) {
            change(*packet);
        }
        decoder.add(packet.get());
    }
}

// Returns when the first frame that is decoded is shown; AV_NOPTS_VALUE if none exists.
std::int64_t first_time(PacketFeed& feed, const std::shared_ptr<const Stream>& stream, const DecodeOptions& options) {
    StreamDecoder decoder(stream, options);
    std::int64_t first = AV_NOPTS_VALUE;
    decode(
        feed, decoder, [](AVPacket& /*packet*/) {},
        [&](const AVFrame& frame) {
            first = frame.pts;
            return false;
        });
    return first;
}

// Returns the positions of the frames that are shown before.
std::vector<std::size_t> lost_before(std::int64_t time, const VideoIndex& index) {
    std::vector<std::size_t> lost;
    for (std::size_t frame = 0; frame < index.num_frames() && index.time(frame) < time; ++frame) {
        lost.push_back(index.position(frame));
    }
    return lost;
}

// Returns the positions of the first packets that make no frame. The times of packets may not be the display times of
// their frames, so positions identify them. Frames shown before a key frame are decoded soon after it.
std::vector<std::size_t> lost_by_position(PacketFeed& feed, const VideoIndex& index,
                                          const std::shared_ptr<const Stream>& stream, const DecodeOptions& options) {
    constexpr std::int64_t kMostReordered = 16;
    Stream numbered = *stream;
    numbered.times = Times::kShown;
    StreamDecoder decoder(std::make_shared<const Stream>(std::move(numbered)), options);
    std::set<std::int64_t> found;
    std::int64_t first = 0;
    decode(
        feed, decoder, [&](AVPacket& packet) { packet.pts = packet.dts = static_cast<std::int64_t>(feed.position()); },
        [&](const AVFrame& frame) {
            first = found.empty() ? frame.pts : first;
            found.insert(frame.pts);
            return frame.pts <= first + 2 * kMostReordered;
        });
    std::vector<std::size_t> lost;
    for (std::size_t frame = 0; frame < index.num_frames() && !found.empty(); ++frame) {
        const auto position = static_cast<std::int64_t>(index.position(frame));
        if (position <= first + kMostReordered && !found.contains(position)) {
            lost.push_back(index.position(frame));
        }
    }
    return lost;
}

}  // namespace

bool may_lack_beginning(const VideoIndex& index, const Stream& stream, bool begins_with_key) {
    if (index.num_frames() == 0) {
        return false;
    }
    if (index.timed()) {
        return !begins_with_key || index.time(0) < index.times()[0];
    }
    // A frame that such a file marks as a key frame may not be one.
    return is_recorded(stream.parameters->codec_id);
}

VideoIndex without_lost(VideoIndex index, PacketFeed& feed, const std::shared_ptr<const Stream>& stream,
                        const DecodeOptions& options) {
    try {
        const std::int64_t first = first_time(feed, index.settled(stream), options);
        const std::vector<std::size_t> lost =
            index.timed() ? lost_before(first, index) : lost_by_position(feed, index, stream, options);
        if (first != AV_NOPTS_VALUE && !lost.empty() && lost.size() < index.num_frames()) {
            return index.without(lost);
        }
    } catch (const MediaError&) {
        // The error is reported when a frame is read.
    }
    return index;
}

namespace {

// ISO/IEC 11172-3, section 2.4.2.3: the word, a version, a layer, a bit rate and a sample rate that are not reserved.
bool begins_mpeg_frame(std::uint64_t word) {
    constexpr std::uint64_t kSync = 0x7FF;
    return word >> 21 == kSync && (word >> 19 & 3) != 1 && (word >> 17 & 3) != 0 && (word >> 12 & 15) != 15 &&
           (word >> 10 & 3) != 3;
}

// ISO/IEC 13818-7, section 6.2.
bool begins_adts_frame(std::uint64_t word) {
    constexpr std::uint64_t kSync = 0xFFF;
    return word >> 20 == kSync && (word >> 17 & 3) == 0;
}

// ETSI TS 102 366, section 4.3.1, in both orders of bytes.
bool begins_ac3_frame(std::uint64_t word) {
    constexpr std::uint64_t kSync = 0x0B77;
    constexpr std::uint64_t kSwapped = 0x770B;
    return word >> 16 == kSync || word >> 16 == kSwapped;
}

// SoX and others count the byte that makes a chunk even as one of the sound. A parser of FFmpeg makes a packet of it;
// without one, it is the end of the last packet.
bool is_gsm(const AVCodecParameters& sound) {
    return sound.codec_id == AV_CODEC_ID_GSM || sound.codec_id == AV_CODEC_ID_GSM_MS;
}

}  // namespace

bool may_begin_sound(const AVPacket& packet, const AVFormatContext& container) {
    const AVCodecParameters& sound = *container.streams[packet.stream_index]->codecpar;
    if (sound.codec_type != AVMEDIA_TYPE_AUDIO || packet.size == 0) {
        return true;
    }
    const std::string_view format = container.iformat->name;
    const std::uint64_t word = BoxReader({packet.data, static_cast<std::size_t>(packet.size)}).take(4);
    if (format == "mp3") {
        return begins_mpeg_frame(word);
    }
    if (format == "aac") {
        return begins_adts_frame(word);
    }
    if (format == "ac3" || format == "eac3") {
        return begins_ac3_frame(word);
    }
    return !is_gsm(sound) || packet.size >= sound.block_align;
}

void cut_to_blocks(AVPacket& packet, const AVFormatContext& container) {
    const AVCodecParameters& sound = *container.streams[packet.stream_index]->codecpar;
    if (is_gsm(sound) && sound.block_align > 0 && packet.size > sound.block_align) {
        av_shrink_packet(&packet, packet.size - packet.size % sound.block_align);
    }
}

bool is_inner_header(const AVPacket& packet, AVCodecID codec) {
    const std::string_view bytes(reinterpret_cast<const char*>(packet.data), static_cast<std::size_t>(packet.size));
    switch (codec) {
        case AV_CODEC_ID_OPUS:  // RFC 7845, section 5.
            return bytes.starts_with("OpusHead") || bytes.starts_with("OpusTags");
        case AV_CODEC_ID_VP8:
            return bytes.starts_with("OVP80");
        case AV_CODEC_ID_THEORA:  // Theora specification, section 6.1.
            if (bytes.size() > 1 && (packet.data[0] & 0x80) != 0 && bytes.substr(1).starts_with("theora")) {
                throw MediaError(
                    "another Ogg file with Theora begins in the middle of the file, and only its own headers tell how "
                    "it is decoded: split the file where \"OggS\" stands before \"theora\", and read the parts");
            }
            return false;
        default:
            return false;
    }
}

namespace {

bool wants_damaged(const DecodeOptions& options) {
    return std::ranges::any_of(options.decoder_options, [](const auto& option) {
        return option.first == "err_detect" && option.second.find("ignore_err") != std::string::npos;
    });
}

// Returns whether a picture is not shown, and no other needs it. FFmpeg's decoder of JPEG would show it.
bool is_cut_off(const AVPacket& packet, AVCodecID codec) {
    const AVCodecDescriptor* const described = avcodec_descriptor_get(codec);
    const bool intra = described != nullptr && described->type == AVMEDIA_TYPE_VIDEO &&
                       (described->props & AV_CODEC_PROP_INTRA_ONLY) != 0;
    return intra && (packet.flags & AV_PKT_FLAG_DISCARD) != 0;
}

std::int64_t duration_of(const AVFrame& frame, const Stream& stream) {
    if (stream.medium == Medium::kAudio) {
        return frame.sample_rate > 0 ? av_rescale_q(frame.nb_samples, {1, frame.sample_rate}, stream.time_base) : 0;
    }
#if LIBAVUTIL_VERSION_INT >= AV_VERSION_INT(57, 30, 100)
    const std::int64_t duration = frame.duration;
#else
    const std::int64_t duration = frame.pkt_duration;
#endif
    if (duration > 0 && duration <= kMaxTime) {
        return duration;
    }
    return stream.frame_rate.num > 0 ? av_rescale_q(1, av_inv_q(stream.frame_rate), stream.time_base) : 1;
}

}  // namespace

StreamDecoder::StreamDecoder(std::shared_ptr<const Stream> stream, const DecodeOptions& options)
    : stream_(std::move(stream)),
      options_(options),
      context_(make_decoder(*stream_, options_)),
      counter_(*stream_),
      keep_damaged_(wants_damaged(options)),
      losses_(stream_),
      cut_off_(stream_->parameters->codec_id) {
    sample_bytes_ = bytes_of_sample(*stream_->parameters);
    total_samples_ = total_samples(*stream_->parameters);
    skip_frame_ = context_->skip_frame;
    flags_ = context_->flags;
    sums_ = context_->err_recognition;
}

std::string StreamDecoder::what(std::int64_t time) const {
    std::string text = "cannot decode the " + stream_->describe();
    if (time != AV_NOPTS_VALUE) {
        char seconds[32];
        std::snprintf(seconds, sizeof(seconds), "%.3f", stream_->seconds(time));
        text += std::string(" at ") + seconds + " s";
    }
    return text;
}

void StreamDecoder::add(const AVPacket* packet, bool needed) {
    if (packet == nullptr) {
        ending_ = true;
        begin_without_key();
        if (kept_back_.empty()) {
            send_end();
        }
        return;
    }
    if (is_empty(*packet) || is_cut_off(*packet, stream_->parameters->codec_id)) {
        return;  // A picture that was left out.
    }
    for (const std::int64_t time : {packet->pts, packet->dts, packet->duration}) {
        check_time(time, "the time of a packet");
    }
    if (const PacketTimes times = times_in(*packet, *stream_); !times.hidden && counted_.value_or(true)) {
        counter_.add(times);
    }
    if (!keep_back(*packet)) {
        send(*packet, needed);
    }
}

// FFmpeg makes frames of pictures of these codecs without those that they build on, and of MPEG-4 also some that are
// not there at all.
bool StreamDecoder::lacks_key(const AVPacket& packet) const {
    switch (stream_->parameters->codec_id) {
        case AV_CODEC_ID_HEVC:
            return stream_->tells_keys && !is_key(packet, *stream_) && has_picture(packet, *stream_->parameters);
        case AV_CODEC_ID_MPEG4:
            return !is_key(packet, *stream_);
        default:
            return false;
    }
}

// Keeps a packet back that may have to be left out, as it precedes the first key frame. If none comes for long, all are
// decoded after all: the picture may be refreshed bit by bit.
bool StreamDecoder::keep_back(const AVPacket& packet) {
    constexpr std::size_t kMost = 300;
    if (begun_) {
        return false;
    }
    if (lacks_key(packet)) {
        kept_back_.push_back(reference(packet));
        if (kept_back_.size() >= kMost) {
            begin_without_key();
        }
        return true;
    }
    begun_ = is_key(packet, *stream_);
    if (begun_) {
        kept_back_.clear();
    }
    return false;
}

// FFmpeg makes more frames of MPEG-4 than there are where the first ones are reordered, so that none can be counted.
void StreamDecoder::begin_without_key() {
    const bool reordered = std::ranges::any_of(kept_back_, [&](const PacketPtr& packet) {
        return holds_reordered_picture(stream_->parameters->codec_id,
                                       {packet->data, static_cast<std::size_t>(packet->size)});
    });
    if (reordered && !keep_damaged_) {
        kept_back_.clear();
        throw MediaError(what(AV_NOPTS_VALUE) + ": it does not begin with a key frame, and none follows");
    }
    begun_ = true;
}

// Gives the decoder more of what it was not given yet. Returns whether there was something.
bool StreamDecoder::send_kept_back() {
    if (!begun_ || (kept_back_.empty() && (!ending_ || ended_))) {
        return false;
    }
    if (kept_back_.empty()) {
        send_end();
    } else {
        const PacketPtr packet = std::move(kept_back_.front());
        kept_back_.pop_front();
        send(*packet, true);
    }
    return true;
}

// Decoders keep some of their state when all else is forgotten. Pictures that need others, which are not there, would
// be other ones then.
void StreamDecoder::begin_with(const AVPacket& packet) {
    if (used_ && stream_->medium == Medium::kVideo && !is_key(packet, *stream_)) {
        context_ = make_decoder(*stream_, options_);
    }
    used_ = true;
    sent_ = true;
}

void StreamDecoder::send(const AVPacket& packet, bool needed) {
    if (!sent_) {
        begin_with(packet);
    }
    const FfmpegLog log;
    context_->skip_frame = needed ? skip_frame_ : std::max(skip_frame_, AVDISCARD_NONREF);
    last_packet_ = packet.pts != AV_NOPTS_VALUE ? packet.pts : packet.dts;
    if (packet.size > 0 && stream_->parameters->codec_id == AV_CODEC_ID_MP2 && !keep_damaged_) {
        // FFmpeg's decoder takes what lies after the packet for the rest of it.
        const Bytes frame(packet.data, static_cast<std::size_t>(packet.size));
        if (const std::size_t whole = layer_two_bytes(frame); whole > frame.size()) {
            throw MediaError(what(last_packet_) + ": the frame ends after " + std::to_string(frame.size()) + " of " +
                             std::to_string(whole) + " bytes");
        }
    }
    if (stream_->parameters->codec_id == AV_CODEC_ID_H264 && stream_->times == Times::kShown) {
        if (first_key_ == AV_NOPTS_VALUE && is_key(packet, *stream_)) {
            first_key_ = packet.pts;
        }
        num_since_key_ += first_key_ == AV_NOPTS_VALUE ? 0 : 1;
    }
    if (ends_within_sample_ && !keep_damaged_) {
        throw MediaError(what(last_packet_) + ": a packet ends within a sample, and it is not the last one");
    }
    // The sound of some files does.
    ends_within_sample_ = sample_bytes_ > 0 && packet.size % sample_bytes_ != 0;
    if (packet.size < sample_bytes_) {
        return;
    }
    if (stream_->parameters->codec_id == AV_CODEC_ID_FLAC) {
        // A frame ends with its sum (RFC 9639, section 9.3). If something follows, FFmpeg knows its end.
        const bool right = crc_16_ansi(0, {packet.data, static_cast<std::size_t>(packet.size)}) == 0;
        context_->err_recognition = right ? sums_ & ~AV_EF_CRCCHECK : sums_;
    }
    losses_.see(packet);
    cut_off_.see(packet);
    rest_is_nothing_ = rest_is_nothing_ && total_samples_ > 0;
    const int code = avcodec_send_packet(context_.get(), &packet);
    losses_.hear(log.line());
    if (code < 0) {
        refused(log, code);
    }
}

// Data after the sound does not matter unless more sound follows: that is noticed when it comes.
void StreamDecoder::refused(const FfmpegLog& log, int code) {
    if (keep_damaged_ && code != AVERROR(ENOMEM)) {
        return;
    }
    if (!rest_is_nothing_ || code == AVERROR(ENOMEM)) {
        log.raise(what(last_packet_), code);
    }
    if (total_samples_ > 0 && refused_.empty()) {
        refused_ = what(last_packet_) + ": its data are damaged, or they are not sound";
    }
}

void StreamDecoder::send_end() {
    const FfmpegLog log;
    ended_ = true;
    if (first_key_ != AV_NOPTS_VALUE) {
        // FFmpeg's decoder of H.264 takes what follows a key frame of an open group for damaged until it has given out
        // the key frame. Here all of it builds on nothing else, but for what is shown before; see is_unrecovered().
        context_->flags |= AV_CODEC_FLAG_OUTPUT_CORRUPT;
    }
    const int code = avcodec_send_packet(context_.get(), nullptr);
    if (code < 0 && code != AVERROR_EOF && !keep_damaged_) {
        log.raise(what(last_packet_), code);
    }
}

FramePtr StreamDecoder::get() {
    const FfmpegLog log;
    FramePtr frame = make_frame();
    for (;;) {
        const int code = avcodec_receive_frame(context_.get(), frame.get());
        if (code == AVERROR(EAGAIN) && send_kept_back()) {
            continue;
        }
        if (code == AVERROR(EAGAIN) || code == AVERROR_EOF) {
            return nullptr;
        }
        if (code < 0) {
            refused(log, code);
            continue;
        }
        if (!refused_.empty()) {
            throw MediaError(std::exchange(refused_, {}));
        }
        losses_.hear(log.line());
        if (losses_.is_doubtful(frame->pts)) {
            frame->decode_error_flags |= FF_DECODE_ERROR_MISSING_REFERENCE;
        }
        if (cut_off_.hides(*frame) || is_unrecovered(*frame)) {
            av_frame_unref(frame.get());
            continue;
        }
        complete(*frame);
        return frame;
    }
}

// Returns whether a frame that comes at the end builds on what precedes the key frame that decoding began with.
bool StreamDecoder::is_unrecovered(const AVFrame& frame) const {
    // The most that a decoder holds back. Further away, such a time comes of a clock that was set back.
    constexpr int kMostReordered = 32;
    const bool told = first_key_ != AV_NOPTS_VALUE && frame.pts != AV_NOPTS_VALUE;
    return ended_ && told && num_since_key_ <= kMostReordered && frame.pts < first_key_;
}

void StreamDecoder::complete(AVFrame& frame) {
    if (stream_->medium == Medium::kVideo) {
        forget_unknown_colors(frame);
        check_source_size({frame.width, frame.height}, "cannot decode the video: its size", options_.max_pixels);
    } else if (frame.ch_layout.order == AV_CHANNEL_ORDER_UNSPEC) {
        // Filters need to know which channel is which; the ffmpeg command takes the usual order, too.
        const int channels = frame.ch_layout.nb_channels;
        av_channel_layout_default(&frame.ch_layout, channels);
    }
    if (!counted_) {
        counted_ =
            stream_->times != Times::kShown || (frame.pts == AV_NOPTS_VALUE && stream_->parameters->video_delay > 0);
    }
    if (*counted_) {
        frame.pts = counter_.next();
    } else if (frame.pts == AV_NOPTS_VALUE) {
        frame.pts = frame.best_effort_timestamp;
    }
    if (frame.pts == AV_NOPTS_VALUE) {
        const std::int64_t begin = stream_->start != AV_NOPTS_VALUE ? stream_->start : 0;
        frame.pts = next_time_ != AV_NOPTS_VALUE ? next_time_ : begin;
    }
    check_time(frame.pts);
    if (total_samples_ > 0) {
        // FFmpeg takes data after the last frame of FLAC for a part of it.
        const std::int64_t place = rescale_time(frame.pts, stream_->time_base, {1, frame.sample_rate});
        rest_is_nothing_ = place + frame.nb_samples >= total_samples_;
    } else {
        // Packets of Speex are filled up after the mark that ends the last frame.
        rest_is_nothing_ = sample_bytes_ > 0 || stream_->parameters->codec_id == AV_CODEC_ID_SPEEX;
    }
    next_time_ = frame.pts + duration_of(frame, *stream_);
}

void StreamDecoder::check(const AVFrame& frame) const {
    const bool damaged = frame.decode_error_flags != 0 || (frame.flags & AV_FRAME_FLAG_CORRUPT) != 0;
    if (damaged && !keep_damaged_) {
        throw MediaError(what(frame.pts) +
                         ": the frame is damaged, or frames that it builds on are missing. To keep what the decoder "
                         "makes of it, pass decode_config(decoder_options={\"err_detect\": \"ignore_err\"})");
    }
}

void StreamDecoder::set_stream(const std::shared_ptr<const Stream>& stream) {
    stream_ = stream;
    counter_ = FrameCounter(*stream_);
    context_->pkt_timebase = stream->time_base;
}

void StreamDecoder::reset() {
    sent_ = false;
    avcodec_flush_buffers(context_.get());
    // Some decoders, such as FFmpeg 7's for HEVC, still return a frame that was finished before.
    const FramePtr stale = make_frame();
    while (avcodec_receive_frame(context_.get(), stale.get()) >= 0) {
        av_frame_unref(stale.get());
    }
    context_->flags = flags_;
    losses_.reset();
    cut_off_.reset();
    kept_back_.clear();
    rest_is_nothing_ = false;
    refused_.clear();
    ends_within_sample_ = false;
    begun_ = false;
    ending_ = false;
    ended_ = false;
    first_key_ = AV_NOPTS_VALUE;
    num_since_key_ = 0;
    last_packet_ = AV_NOPTS_VALUE;
    counter_ = FrameCounter(*stream_);
    counted_.reset();
    next_time_ = AV_NOPTS_VALUE;
}

CodecParametersPtr StreamDecoder::parameters() const {
    CodecParametersPtr known = copy_parameters(*stream_->parameters);
    require_memory(avcodec_parameters_from_context(known.get(), context_.get()) >= 0);
    // Not known to the decoder.
    known->codec_tag = stream_->parameters->codec_tag;
    known->bit_rate = stream_->parameters->bit_rate;
    return known;
}

}  // namespace spdl
