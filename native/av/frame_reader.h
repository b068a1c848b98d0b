#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "av/frame_clock.h"
#include "av/frame_filters.h"
#include "av/packet_list.h"
#include "av/stream_decoder.h"
#include "ffmpeg/libav.h"
#include "media/decode_options.h"
#include "media/time_window.h"

namespace spdl {

// Frames of one stream in the order in which they are shown.
struct FrameList {
    Medium medium = Medium::kVideo;
    std::vector<FramePtr> frames;
    AVRational time_base{0, 1};
    // The form of sound of which the filters have left no sample, as a resampler does that gets a few only. Nothing if
    // there are frames, or if there was nothing to filter.
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

    // Says that the packets that follow are those of this stream, which is the same but for the unit of times. It is
    // called before the first packet, or after flush().
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
    void filter(FramePtr frame, std::vector<FramePtr>& frames);
    void append(FramePtr finished, AVRational unit, std::vector<FramePtr>& frames) const;
    void end_filters(std::vector<FramePtr>& frames, std::size_t most);

    StreamDecoder decoder_;
    FrameClock clock_;
    std::string filters_;
    TimeWindow window_;
    std::optional<FrameFilters> chain_;
    AVRational time_base_;
    bool filtered_ = false;  // Whether the time base is that of filters.
    bool fills_ = false;
    FramePtr last_;                           // The sound that was decoded last, for silence of its form.
    std::optional<std::int64_t> next_place_;  // The sample that follows those that were put into the filters.
    std::shared_ptr<const AVFrame> form_;
    std::int64_t first_shown_ = AV_NOPTS_VALUE;  // The earliest frame within the window so far.
};

// Returns the frames of all packets; of the first `num_frames` if that is not -1. See FrameReader::fill_gaps.
FrameList read_frames(const PacketList& packets, const DecodeOptions& options, const std::string& filters,
                      std::int64_t num_frames, bool fills_gaps = false);

}  // namespace spdl
