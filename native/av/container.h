#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "av/file_end.h"
#include "av/packets.h"
#include "av/samples.h"
#include "av/sound_headers.h"
#include "core/files.h"
#include "ffmpeg/byte_io.h"
#include "ffmpeg/libav.h"
#include "media/options.h"

namespace spdl {

// Continues the times of a video where its file's times begin again. Files of some containers can be concatenated (`cat
// a.ts b.ts`), and recorders set their clock back: what comes later is shown later.
class JoinedTimes {
  public:
    // `looks_up` says whether the demuxer looks up in packets which are key frames.
    explicit JoinedTimes(bool looks_up) : looks_up_(looks_up) {}

    // If the clock was set back, moves the times of the stream's next packet after the earlier packets' times.
    void follow(AVPacket& packet, const AVStream& stream);

    // Returns whether there was such a place.
    [[nodiscard]] bool joined() const { return joined_; }

  private:
    [[nodiscard]] bool begins_anew(const AVPacket& packet, const AVStream& stream) const;

    bool looks_up_;
    std::int64_t decoded_ = AV_NOPTS_VALUE;  // Of the packets since the last such place, as the file says: the last
    std::int64_t shown_ = AV_NOPTS_VALUE;    // time of decoding and the latest of showing,
    std::int64_t end_ = AV_NOPTS_VALUE;      // and when the last frame ends, which may also be one before that place.
    std::int64_t before_ = AV_NOPTS_VALUE;   // When the last packet is shown.
    std::int64_t moved_ = 0;
    bool waits_ = false;  // Whether a frame is not shown yet that does not say when it will be.
    bool joined_ = false;
};

// Returns a source without what lies between the frames of concatenated files: tags (ID3, APE) in MPEG audio, and
// headers in FLAC. FFmpeg takes them, and the frames beside them, for damage. They are found where the bytes are read
// one after the other, so that reading on must begin before them. Other files are read unchanged.
std::unique_ptr<ByteSource> frames_of_joined(std::unique_ptr<ByteSource> source);

// Returns whether a segment index of MP4 (sidx) says other times than the fragments of a track that it leads to.
// libavformat seeks by the one and reads on by the other: if they differ, it skips fragments. The position in the file,
// of that size, does not change.
[[nodiscard]] bool has_wrong_segment_index(AVIOContext& input, std::int64_t size, int track);

// Throws MediaError if a reader of a file in that format would take raw pictures of a stream, which was added to it,
// for another pixel format.
void check_raw_pictures(const AVOutputFormat& format, const AVStream& stream);

// How much must be known about the streams: everything, or for videos only enough to read and decode their packets.
// That excludes the pixel format if the header does not name it.
enum class Probing { kAll, kPackets };

struct OpenFormat {
    FormatContextPtr context;
    std::vector<int> packets_in_index;  // Of each stream, those that the header's index tells.
};

// Opens a file for reading. `plain_wav` says whether it is a WAV file of samples. The input must live as long as the
// context. Files that name others are refused.
OpenFormat open_format(Input& input, const DemuxOptions& options, Probing probing, bool plain_wav);

// Returns whether a container has a header that names all streams, and an index of all packets in front of them or
// after. Matroska may have both, but its demuxer finds out only at the end that a file was cut off.
bool has_index(const AVFormatContext& context);

// A file of audio and video streams that is open for reading. One thread at a time. All errors are MediaErrors.
class Container {
  public:
    // `costly` says that reading takes longer than anything else, as from a server.
    Container(std::unique_ptr<ByteSource> source, DemuxOptions options, Probing probing = Probing::kAll,
              bool costly = false);

    [[nodiscard]] int num_streams() { return static_cast<int>(context().nb_streams); }

    // Returns the format of the file by FFmpeg's name.
    [[nodiscard]] const char* format() { return context().iformat->name; }

    // Returns whether packets have their own times. FFmpeg makes up the times of streams without a container, and in
    // Ogg of all packets except the last one on a page. In CAF it may take sizes for durations.
    [[nodiscard]] bool tells_each_time() {
        const std::string_view name = format();
        return !is_raw(*context().iformat) && name != "ogg" && name != "caf";
    }

    // Returns the stream that FFmpeg takes for the main one of its medium; nothing if none exists.
    [[nodiscard]] std::optional<int> best_stream(Medium medium);

    // Throws if there is no such stream of audio or video.
    [[nodiscard]] std::shared_ptr<const Stream> stream(int index);

    // Selects one stream and goes to where decoding a window of it must begin. Returns the stream.
    std::shared_ptr<const Stream> begin(int index, const TimeWindow& window);

    // Says which streams read() returns packets of. Others are skipped.
    void select(const std::set<int>& streams);

    // Returns another number whenever streams were selected again, so that a reader notices that other code has used
    // the container.
    [[nodiscard]] std::uint64_t generation() const { return generation_; }

    // Returns whether the file says where packets are. Demuxers go to a time in others by guessing.
    [[nodiscard]] bool can_seek(int stream);

    // Returns whether the times of a stream's packets are enough to seek to a window and to leave it.
    [[nodiscard]] bool leads_to_times(int stream);

    // Returns whether an edit list has several parts of a stream shown, one after the other. It is not known of a
    // source that can be read once only.
    [[nodiscard]] bool shows_parts(int stream) { return shown_parts(stream) > 1; }

    // Throws if the sound of a stream has more than one clock: parts that the file shows in sequence, or parts of
    // several files, overlap by some samples, and the file does not say which are heard.
    void check_one_clock(int stream);

    // Returns whether the file can be read from its beginning to its end only, and only once.
    [[nodiscard]] bool reads_once() const { return source_->size() == ByteSource::kUnknown; }

    // Returns whether what was read so far of a video is from several files, concatenated. The times of its packets go
    // on.
    [[nodiscard]] bool is_joined() const { return joined_; }

    // Returns after how long the clock of a stream begins again, in units of its time base; 0 if it does not.
    [[nodiscard]] std::int64_t period(int stream);

    // Returns the end of a stream, in units of its time base, if the header has it.
    [[nodiscard]] std::optional<std::int64_t> promised_end(int stream);

    // Returns the next packet of the selected streams in the order of the file; null at the end.
    PacketPtr read();

    // Has read() return packets without contents up to the end, if reading is costly and the header says everything
    // else about the packets of this stream. Returns whether that is so.
    bool leave_out_contents(int stream);

    // Goes to the last packet of a stream from which the frame at `time` can be decoded: a key frame that is not shown
    // after it; to the beginning if it cannot seek. `time` is in units of the stream's time base.
    void seek(int stream, std::int64_t time);

    // Goes near a packet of a stream, whose time and place in the file are those. The reader must find out which packet
    // is the next. Returns whether it went anywhere.
    bool go_near(int stream, std::int64_t time, std::int64_t byte);

    // Goes to the beginning.
    void rewind();

    // The known packets of a stream of sound. Reading all of them fills it in.
    [[nodiscard]] SoundIndex& sound_index(int stream) { return sounds_[stream]; }

    // Returns the duration in seconds as the file says; nothing if it does not.
    [[nodiscard]] std::optional<double> duration();

  private:
    void open();
    void mend();
    void discard_others();
    [[nodiscard]] bool tells_keys(int stream);
    [[nodiscard]] bool tells_packets(int stream);
    [[nodiscard]] bool has_one_clock(const AVStream& stream);
    [[nodiscard]] std::int64_t shown_parts(int stream);
    [[nodiscard]] bool is_led_astray(int stream);
    [[nodiscard]] bool is_single();
    [[nodiscard]] AVFormatContext& context();
    std::shared_ptr<const Stream> describe(int index);
    PacketPtr read_packet();
    [[nodiscard]] bool may_be_cut(const AVPacket& packet);
    [[nodiscard]] bool ends_nut(const AVPacket& packet);
    void check_last(const AVPacket& packet);
    PacketPtr read_any_packet();
    void repeat_palette(AVPacket& packet);
    void look_for_palette(int stream);
    void check_pages(const AVPacket& packet);
    void check_last_pages();
    void refuse(const OggPages::Loss& loss, int stream);
    bool try_seek(int stream, std::int64_t time, std::int64_t needed);
    bool jump(int stream, std::int64_t to, int flags);

    DemuxOptions options_;
    Probing probing_;
    bool costly_;
    std::unique_ptr<ByteSource> source_;
    OggPages* pages_ = nullptr;  // Which is the source.
    std::unique_ptr<Input> input_;
    FormatContextPtr context_;
    std::optional<WavSize> cut_wav_;
    bool plain_wav_ = false;    // Whether it is a WAV file of samples, by its contents, too.
    std::vector<int> indexed_;  // The packets of each stream that the header's index tells.
    std::set<int> selected_;
    std::map<int, std::shared_ptr<const Stream>> streams_;
    std::map<int, SoundIndex> sounds_;
    std::map<int, JoinedTimes> clocks_;                  // Of the videos, from the beginning on.
    std::map<int, std::vector<std::uint8_t>> palettes_;  // Of the videos, the last ones.
    bool joined_ = false;
    std::optional<bool> single_;                   // Whether the file is one, once somebody has asked,
    std::map<int, std::int64_t> parts_;            // of each stream how many parts of it are shown,
    std::map<int, bool> astray_;                   // and whether the file leads to other packets than it says.
    std::unordered_set<std::int64_t> key_places_;  // Where the header's index says that key frames are.
    std::deque<PacketPtr> pending_;                // Read to look at them; read() returns them first.
    std::deque<PacketPtr> ahead_;                  // Read to find out whether something follows.
    std::deque<PacketPtr> doubtful_;               // Read, and to be left out if nothing follows.
    bool marks_ends_ = false;                      // Whether pictures of a raw stream have a mark at their end.
    bool at_start_ = true;
    bool broken_ = false;                     // After an error, until it is opened again.
    std::uint64_t generation_ = 0;            // How often streams were selected.
    std::int64_t last_end_ = AV_NOPTS_VALUE;  // The latest of the packets that were read since the last seek.
};

}  // namespace spdl
