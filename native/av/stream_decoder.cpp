#include "av/stream_decoder.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string_view>
#include <utility>

#include "av/fast_crc.h"
#include "av/flac_frame.h"
#include "av/key_frame.h"
#include "av/mpeg_audio_frame.h"
#include "av/nal_units.h"
#include "av/open_decoder.h"
#include "av/packet_list.h"
#include "av/packet_samples.h"
#include "av/picture_header.h"
#include "core/geometry.h"
#include "core/media_error.h"
#include "ffmpeg/ffmpeg_log.h"
#include "ffmpeg/known_colors.h"
#include "ffmpeg/times.h"

namespace spdl {
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
        // FFmpeg's decoder takes what lies behind the packet for the rest of it.
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
        // A frame ends with its sum (RFC 9639, section 9.3). If something follows, FFmpeg knows where it ends.
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

// What is behind the sound is nothing, but for data that more sound follows: that is noticed when it comes.
void StreamDecoder::refused(const FfmpegLog& log, int code) {
    if (keep_damaged_ && code != AVERROR(ENOMEM)) {
        return;
    }
    if (!rest_is_nothing_ || code == AVERROR(ENOMEM)) {
        log.raise(what(last_packet_), code);
    }
    if (total_samples_ > 0 && refused_.empty()) {
        refused_ = what(last_packet_) + ": its data are damaged, or they are no sound";
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
        // What is behind the last frame of FLAC, FFmpeg takes for a part of it.
        const std::int64_t place = rescale_time(frame.pts, stream_->time_base, {1, frame.sample_rate});
        rest_is_nothing_ = place + frame.nb_samples >= total_samples_;
    } else {
        // Packets of Speex are filled up behind the mark that ends the last frame.
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
    // Some decoders, such as that of HEVC in FFmpeg 7, still give a frame that was finished before.
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
    if (avcodec_parameters_from_context(known.get(), context_.get()) < 0) {
        throw std::bad_alloc();
    }
    // What the decoder does not know.
    known->codec_tag = stream_->parameters->codec_tag;
    known->bit_rate = stream_->parameters->bit_rate;
    return known;
}

}  // namespace spdl
