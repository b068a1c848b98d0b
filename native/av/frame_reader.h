#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "av/packets.h"
#include "av/scaling.h"
#include "av/stream_decoder.h"
#include "av/video_index.h"
#include "ffmpeg/filters.h"
#include "ffmpeg/libav.h"
#include "media/options.h"

namespace spdl {

// Tells where the sound in decoded frames lies: as their times say if these are exact, or one after the other.
class FrameClock {
  public:
    // With `keep_damaged`, packets may have less in them than they say.
    FrameClock(std::shared_ptr<const Stream> stream, bool keep_damaged)
        : stream_(std::move(stream)), keep_damaged_(keep_damaged) {}

    // Takes note of the next packet that is decoded.
    void see(const AVPacket& packet);

    // Returns the start of the next frame, in samples at its rate from time 0. Throws MediaError if it is not where the
    // packets say: their samples were counted wrongly.
    std::int64_t place(const AVFrame& frame);

    // Forgets everything, for packets from another place.
    void reset();

  private:
    void check(std::int64_t place, const AVFrame& frame);

    std::shared_ptr<const Stream> stream_;
    bool keep_damaged_;
    std::optional<std::int64_t> next_;
    std::optional<std::int64_t> packet_end_;
    std::set<std::int64_t> gaps_;  // The ends of those in front of the packets that were put in.
};

// The filters of a description, as FilterChain runs them, with the same frames. Scaling to packed RGB, the most common
// use, is done without FFmpeg's filters if that is faster. Take all finished frames before the next one is put in. One
// thread at a time. All errors are MediaErrors.
class FrameFilters {
  public:
    FrameFilters(const AVFrame& first, AVRational time_base, AVRational frame_rate, const std::string& description);

    // Returns whether a frame has the form that the filters were made for.
    [[nodiscard]] bool takes(const AVFrame& frame) const;

    // Puts in the next frame; null says that there are no more.
    void add(FramePtr frame);

    // Returns the next finished frame; null if none is ready, or after the end.
    FramePtr get();

    // Returns the unit of the finished frames' times.
    [[nodiscard]] AVRational time_base() const;

    // Returns how many frames the filters make for each second; 0/1 if that is not known.
    [[nodiscard]] AVRational frame_rate() const { return first_ ? first_->frame_rate() : stage_->frame_rate(); }

    // Returns the form of finished sound: a frame without samples. Pictures have none.
    [[nodiscard]] FramePtr sound_form() const { return first_->sound_form(); }

  private:
    void split(const AVFrame& first, AVRational time_base, AVRational frame_rate, const std::string& description);
    FramePtr next();
    void add_after(FramePtr made);
    void end_after();

    std::string description_;
    ScaleDescription parts_;
    std::optional<FilterChain> first_;  // All of the filters, or those before the scaling.
    std::optional<ScaleStage> stage_;   // None if `first_` has all of the filters.
    std::optional<FilterChain> after_;
    FramePtr waiting_;            // For the scaling, if nothing is before it.
    std::int64_t scaled_to_ = 0;  // The time of the last frame that was scaled.
    bool ends_ = false;
};

// Decodes chosen frames of a video, each exactly, and as few others as it can: from the last key frame before them, or
// from the current position if that is nearer. One thread at a time. All errors are MediaErrors.
class FramePicker {
  public:
    // The feed and the index must live as long as the picker.
    FramePicker(const std::shared_ptr<const Stream>& stream, const DecodeOptions& options, PacketFeed& feed,
                const VideoIndex& index);

    using Take = std::function<void(std::size_t frame, FramePtr decoded)>;

    // Calls `take` for each of these frames, which must be in ascending order, once.
    void pick(const std::vector<std::size_t>& frames, const Take& take);

    // Says that other code has used the feed.
    void forget() { next_ = kNone; }

    [[nodiscard]] const StreamDecoder& decoder() const { return decoder_; }

  private:
    static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

    FramePtr decode(std::size_t frame);
    FramePtr decode_from_here(std::size_t frame);
    void go_to(std::size_t position);
    [[nodiscard]] std::size_t frame_of(const AVFrame& decoded);

    StreamDecoder decoder_;
    PacketFeed& feed_;
    const VideoIndex& index_;
    std::size_t next_ = kNone;    // The position of the packet that the feed gives next; kNone if it must be sought.
    std::size_t passed_ = kNone;  // The frame that came out of the decoder last; kNone if none has since go_to().
};

// Frames of one stream in the order in which they are shown.
struct FrameList {
    Medium medium = Medium::kVideo;
    std::vector<FramePtr> frames;
    AVRational time_base{0, 1};
    // The form of sound if the filters have left no sample, as a resampler does with only a few. Nothing if there are
    // frames, or if there was nothing to filter.
    std::shared_ptr<const AVFrame> form = nullptr;

    [[nodiscard]] std::size_t bytes() const;

    // Returns another list that shares the data.
    [[nodiscard]] FrameList clone() const;
};

// Makes frames of a stream's packets: decodes them, drops what is outside of the window, and filters the rest. Sound is
// cut to the sample. One thread at a time. All errors are MediaErrors.
class FrameReader {
  public:
    // Without filters the frames come as the decoder makes them.
    FrameReader(std::shared_ptr<const Stream> stream, const DecodeOptions& options, std::string filters);

    // The window of the packets that follow. Decoding goes on as before.
    void set_window(const TimeWindow& window) { window_ = window; }

    // Says that the following packets belong to this stream, which differs only in the unit of times. It is called
    // before the first packet, or after flush().
    void set_stream(const std::shared_ptr<const Stream>& stream);

    // Has silence stand where the times of sound leave a gap, also between the bounds of the window and what there is
    // within it.
    void fill_gaps() { fills_ = true; }

    // Takes the next packet, and appends the frames that are finished.
    void add(const AVPacket& packet, std::vector<FramePtr>& frames);

    // Says that no more packets come, and appends the rest of the frames. After it the reader may begin again, with
    // packets from another place.
    // There need not be more than `most` frames then.
    void flush(std::vector<FramePtr>& frames, std::size_t most = kAll);

    static constexpr std::size_t kAll = static_cast<std::size_t>(-1);

    // Throws if frames at the beginning of the window of these packets, which were all put in, did not come: what a
    // file calls a key frame may not be one.
    void check_beginning(const PacketList& packets) const;

    // Returns the unit of the frames' times, which filters may change.
    [[nodiscard]] AVRational time_base() const;

    // Returns the form of the sound that the filters give: a frame without samples. Null if they were given none.
    [[nodiscard]] const std::shared_ptr<const AVFrame>& sound_form() const { return form_; }

    [[nodiscard]] const Stream& stream() const { return decoder_.stream(); }

  private:
    void decode(std::vector<FramePtr>& frames);
    bool cut(FramePtr& frame, std::vector<FramePtr>& frames);
    bool cut_sound(FramePtr& frame, std::vector<FramePtr>& frames);
    void fill(std::int64_t end, const AVFrame& like, std::vector<FramePtr>& frames);
    void check_jump(const AVFrame& frame) const;
    void filter(FramePtr frame, std::vector<FramePtr>& frames);
    void append(FramePtr finished, AVRational unit, std::vector<FramePtr>& frames) const;
    void end_filters(std::vector<FramePtr>& frames, std::size_t most);

    StreamDecoder decoder_;
    FrameClock clock_;
    std::string filters_;
    TimeWindow window_;
    std::optional<FrameFilters> chain_;
    AVRational time_base_;
    std::int64_t filtered_to_ = AV_NOPTS_VALUE;  // The time of the frame that was put into the filters last.
    bool filtered_ = false;                      // Whether the time base is that of filters.
    bool fills_ = false;
    FramePtr last_;                           // The sound that was decoded last, for silence of its form.
    std::optional<std::int64_t> next_place_;  // The sample that follows those that were put into the filters.
    std::shared_ptr<const AVFrame> form_;
    std::int64_t first_shown_ = AV_NOPTS_VALUE;  // The earliest frame within the window so far.
};

// Returns the frames of all packets; of the first `num_frames` if that is not -1. See FrameReader::fill_gaps.
FrameList read_frames(const PacketList& packets, const DecodeOptions& options, const std::string& filters,
                      std::int64_t num_frames, bool fills_gaps = false);

// Decodes chosen frames among those within the window of the packets, which must be in ascending order, and as few
// others as it can. Each goes through its own filters.
FrameList sample_frames(const PacketList& packets, const std::vector<std::size_t>& frames, const DecodeOptions& options,
                        const std::string& filters);

}  // namespace spdl
