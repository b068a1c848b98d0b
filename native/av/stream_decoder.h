#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "av/cut_off_frames.h"
#include "av/loss_watch.h"
#include "av/shown_times.h"
#include "av/stream.h"
#include "ffmpeg/ffmpeg_log.h"
#include "ffmpeg/libav.h"
#include "media/decode_options.h"

namespace spdl {

// Decodes the packets of one stream, one after the other. One thread at a time. All errors are MediaErrors.
class StreamDecoder {
  public:
    StreamDecoder(std::shared_ptr<const Stream> stream, const DecodeOptions& options);

    // Takes the next packet; null says that there are no more. All frames must have been taken with get(). The decoder
    // may leave out a frame that is not needed, neither by the caller nor to decode others.
    void add(const AVPacket* packet, bool needed = true);

    // Returns the next frame, with the time when it is shown; null if there is none yet, or after the end.
    FramePtr get();

    // Throws if the frame is damaged, or frames that it builds on were missing, unless the options say to keep it.
    void check(const AVFrame& frame) const;

    // Forgets everything that was put in, for packets from another place.
    void reset();

    [[nodiscard]] const Stream& stream() const { return *stream_; }

    // Says that the packets that follow are those of this stream, which is the same but for the unit of times. It is
    // called before the first packet, or after reset().
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
    std::string refused_;                       // What is wrong behind all sound, which is nothing if no more follows.
    bool rest_is_nothing_ = false;              // Whether all sound was decoded that the last packet can have.
    int flags_ = 0;                             // As the options say.
    int sums_ = 0;                              // What of checksums and the like is checked, as the options say.
    AVDiscard skip_frame_ = AVDISCARD_DEFAULT;  // As the options say.
};

}  // namespace spdl
