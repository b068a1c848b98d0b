#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "av/coded_pictures.h"
#include "av/packets.h"
#include "av/video_index.h"
#include "ffmpeg/ffmpeg_log.h"
#include "ffmpeg/libav.h"
#include "media/options.h"

namespace spdl {

// Returns an open decoder for a stream, with one thread. Throws MediaError if none exists, or it does not take the
// options.
CodecContextPtr make_decoder(const Stream& stream, const DecodeOptions& options);

// Finds the frames of H.264 and HEVC that build on pictures which are missing, as packets were lost. FFmpeg's decoders
// make something of them silently. A lost picture that no other builds on is not noticed, nor is a lost key frame of
// H.264. And finds the pictures of JPEG that end too early, and packets of FFV1, MLP and TrueHD whose checksums differ
// from what is in them.
class LossWatch {
  public:
    explicit LossWatch(const std::shared_ptr<const Stream>& stream);

    // Takes the next packet that is decoded.
    void see(const AVPacket& packet);

    // Takes the last line that FFmpeg has logged while it decoded that packet.
    void hear(const std::string& line);

    // Returns whether the frame that is shown at a time may build on a lost one. It is asked once for each.
    bool is_doubtful(std::int64_t time) { return doubtful_.erase(time) > 0; }

    // Says that the next packet is from another place.
    void reset();

  private:
    [[nodiscard]] bool is_watched() const;

    std::shared_ptr<const Stream> stream_;
    std::optional<H264FrameNumbers> numbers_;
    std::set<std::int64_t> doubtful_;         // When the frames are shown that may build on a lost one.
    std::int64_t packet_ = AV_NOPTS_VALUE;    // When the last packet is shown,
    std::int64_t last_key_ = AV_NOPTS_VALUE;  // and the last key frame.
    bool has_key_ = false;                    // Whether there was a key frame.
    bool lost_ = false;                       // Whether something was lost since the last key frame,
    bool lost_before_ = false;                // or between that and the one before.
};

// Returns whether the first frames may build on pictures that are not there. Recordings begin anywhere: what precedes
// their first key frame builds on what was before, and so may frames that are decoded after it but shown before.
// `begins_with_key` says whether decoding can begin with the first packet.
bool may_lack_beginning(const VideoIndex& index, const Stream& stream, bool begins_with_key);

// Returns an index without the frames at the beginning that the decoder does not make, as what they build on is not
// there. Which ones these are, it knows best. The same index if it makes none at all, or fails. The feed is somewhere
// else then.
VideoIndex without_lost(VideoIndex index, PacketFeed& feed, const std::shared_ptr<const Stream>& stream,
                        const DecodeOptions& options);

// Returns whether a packet may begin with sound. In a file that consists of frames alone, packets that begin with the
// synchronisation word do; in GSM, whole blocks. All others may.
[[nodiscard]] bool may_begin_sound(const AVPacket& packet, const AVFormatContext& container);

// Cuts off what is no whole block at the end of a packet, if its codec has blocks that no parser has split.
void cut_to_blocks(AVPacket& packet, const AVFormatContext& container);

// Returns whether a packet is a header that FFmpeg hands on where another file begins within an Ogg file, and that no
// decoder takes. Throws MediaError if that file cannot be decoded with what is known of the first.
[[nodiscard]] bool is_inner_header(const AVPacket& packet, AVCodecID codec);

// Tells which frames of AV1 are not shown, as their packets say: an edit list cuts them off. FFmpeg leaves out such
// frames of other codecs, but not of dav1d. Packets of AV1 make frames in their order.
class CutOffFrames {
  public:
    explicit CutOffFrames(AVCodecID codec) : needed_(codec == AV_CODEC_ID_AV1) {}

    // Takes note of the next packet that is decoded.
    void see(const AVPacket& packet) {
        if (needed_) {
            packets_.push_back({packet.pts, (packet.flags & AV_PKT_FLAG_DISCARD) != 0});
        }
    }

    // Returns whether the next frame is not shown. A packet may make no frame.
    [[nodiscard]] bool hides(const AVFrame& frame) {
        const auto found = std::ranges::find(packets_, frame.pts, &Packet::shown);
        if (found == packets_.end()) {
            return false;
        }
        const bool hidden = found->hidden;
        packets_.erase(packets_.begin(), found + 1);
        return hidden;
    }

    void reset() { packets_.clear(); }

  private:
    struct Packet {
        std::int64_t shown = AV_NOPTS_VALUE;
        bool hidden = false;
    };

    bool needed_;
    std::deque<Packet> packets_;  // Of which no frame has come yet.
};

// Decodes the packets of one stream, one after the other. One thread at a time. All errors are MediaErrors.
class StreamDecoder {
  public:
    StreamDecoder(std::shared_ptr<const Stream> stream, const DecodeOptions& options);

    // Takes the next packet; null says that there are no more. All frames must have been taken with get(). The decoder
    // may leave out a frame that is not needed, neither by the caller nor to decode others.
    void add(const AVPacket* packet, bool needed = true);

    // Returns the next frame, with the time when it is shown; null if none is ready, or after the end.
    FramePtr get();

    // Throws if the frame is damaged, or frames that it builds on were missing, unless the options say to keep it.
    void check(const AVFrame& frame) const;

    // Forgets everything that was put in, for packets from another place.
    void reset();

    [[nodiscard]] const Stream& stream() const { return *stream_; }

    // Says that the following packets belong to this stream, which differs only in the unit of times. It is called
    // before the first packet, or after reset().
    void set_stream(const std::shared_ptr<const Stream>& stream);

    // Returns whether the options say to keep what is damaged.
    [[nodiscard]] bool keeps_damaged() const { return keep_damaged_; }

    // Returns what is known of the stream's pictures or samples. The header may not tell the form of pictures; then it
    // is known from the first frame on.
    [[nodiscard]] CodecParametersPtr parameters() const;

  private:
    [[nodiscard]] bool lacks_key(const AVPacket& packet) const;
    [[nodiscard]] bool keep_back(const AVPacket& packet);
    void begin_without_key();
    bool send_kept_back();
    void begin_with(const AVPacket& packet);
    void send(const AVPacket& packet, bool needed);
    void refused(const FfmpegLog& log, int code);
    void send_end();
    [[nodiscard]] bool is_unrecovered(const AVFrame& frame) const;
    void complete(AVFrame& frame);
    [[nodiscard]] std::string what(std::int64_t time) const;

    std::shared_ptr<const Stream> stream_;
    DecodeOptions options_;
    CodecContextPtr context_;
    bool used_ = false;                          // Whether it has decoded anything,
    bool sent_ = false;                          // and whether it has since reset().
    std::int64_t last_packet_ = AV_NOPTS_VALUE;  // The time of the packet that was put in last.
    FrameCounter counter_;
    std::optional<bool> counted_;              // Whether frames must be counted; not known before the first one.
    std::int64_t next_time_ = AV_NOPTS_VALUE;  // Of a frame that does not say its own.
    bool keep_damaged_;
    LossWatch losses_;
    CutOffFrames cut_off_;
    std::deque<PacketPtr> kept_back_;           // What precedes the first key frame; see keep_back().
    bool begun_ = false;                        // Whether decoding has begun, with a key frame or without.
    bool ending_ = false;                       // Whether there are no more packets.
    bool ended_ = false;                        // Whether the decoder knows that.
    std::int64_t first_key_ = AV_NOPTS_VALUE;   // When the first key frame that was put in is shown.
    int num_since_key_ = 0;                     // The packets from that one on.
    std::int64_t total_samples_ = 0;            // As the stream's own header says; 0 if it does not.
    int sample_bytes_ = 0;                      // Of PCM, those of all channels.
    bool ends_within_sample_ = false;           // Whether the last packet of PCM does.
    std::string refused_;                       // What is wrong after all sound, which is nothing if no more follows.
    bool rest_is_nothing_ = false;              // Whether all sound was decoded that the last packet can have.
    int flags_ = 0;                             // As the options say.
    int sums_ = 0;                              // What of checksums and the like is checked, as the options say.
    AVDiscard skip_frame_ = AVDISCARD_DEFAULT;  // As the options say.
};

}  // namespace spdl
