#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "av/packets.h"
#include "ffmpeg/libav.h"

namespace spdl {

// Remembers the positions of the packets of a sound, so that a later read need not begin with the first one. FFmpeg's
// times after a seek may be wrong, so packets are identified by their places in the file and by their content.
class SoundIndex {
  public:
    // A packet in the file, and the position of its sound, in samples.
    struct Entry {
        std::uint64_t name = 0;
        std::int64_t byte = -1;              // Where it is in the file.
        std::int64_t time = AV_NOPTS_VALUE;  // As the file says, in units of the stream's time base.
        std::int64_t place = 0;
        std::int64_t samples = 0;
        std::uint32_t begin = 0;  // How many of what it decodes to are left out in front,
        std::uint32_t end = 0;    // and after.
    };

    // Returns the value that identifies a packet.
    static std::uint64_t name(const AVPacket& packet);

    // Takes the next packet. All are added in their order.
    void add(const Entry& entry);

    // Says that all were added.
    void finish() { finished_ = true; }
    [[nodiscard]] bool finished() const { return finished_; }

    [[nodiscard]] std::size_t size() const { return entries_.size(); }
    [[nodiscard]] const Entry& operator[](std::size_t number) const { return entries_[number]; }

    // Returns the packet to begin with so that that many samples are decoded before a place; 0 if there are fewer.
    [[nodiscard]] std::size_t begin(std::int64_t place, std::int64_t samples_before) const;

    // Returns which packet it is; nothing if none or several have the name.
    [[nodiscard]] std::optional<std::size_t> find(std::uint64_t name) const;

  private:
    std::vector<Entry> entries_;
    std::unordered_map<std::uint64_t, std::size_t> numbers_;
    bool finished_ = false;
};

}  // namespace spdl

struct AVVorbisParseContext;

namespace spdl {

// Tells how many samples the packets of a stream decode to, without decoding them. All packets are shown to it, in
// their order: what one of Vorbis gives depends on the one before.
class PacketSamples {
  public:
    explicit PacketSamples(const AVCodecParameters& sound);

    // Returns whether it is known of the codec. Of others, only the decoder knows.
    [[nodiscard]] bool known() const;

    // Returns how many samples there are in the next packet before anything is left out at its ends; 0 if it is
    // damaged.
    int of(const AVPacket& packet);

  private:
    struct Free {
        void operator()(AVVorbisParseContext* context) const noexcept;
    };
    int vorbis_samples(const AVPacket& packet);

    const AVCodecParameters& sound_;
    std::unique_ptr<AVVorbisParseContext, Free> vorbis_;
};

// Returns how many bytes a sample of all channels has in PCM; 0 for coded sound, and PCM that packs samples together.
int bytes_of_sample(const AVCodecParameters& sound);

// Returns whether sound has to be counted from its beginning, as the times of its frames are unreliable: for ADPCM,
// say, and if their unit does not divide the duration of a sample.
bool is_counted(const Stream& stream);

// Returns whether the unit of the stream's times divides the duration of a sample, so that times are exact. Matroska
// counts in milliseconds.
bool times_are_exact(const Stream& stream);

// Returns the same stream with times in samples.
std::shared_ptr<const Stream> count_samples(const Stream& stream);

// Tells where the sound of each packet lies on the time line of its stream, to the sample, from the first packet on.
// The times of many containers are rounded, to milliseconds in Matroska, or wrong for a packet or two; in joined files
// they begin again. The number of samples in each packet is more reliable: a packet follows the one before, unless its
// time and the times after it show a gap between them.
class SampleClock {
  public:
    // It fills the index, which must live as long, if there is one. `timed` says whether there can be gaps in the file:
    // whether packets have times, and these can be relied on. `period`, in samples, is after how long the file's clock
    // begins again; 0 says that it does not.
    SampleClock(std::shared_ptr<const Stream> counted, AVRational unit, bool timed, std::int64_t period,
                SoundIndex* index);

    // Takes the next packet.
    void add(PacketPtr packet);

    // Says that there are no more.
    void end() { ended_ = true; }
    [[nodiscard]] bool ended() const { return ended_; }

    // Returns the next packet with its times in samples; null if it takes more packets to know them, or at the end.
    PacketPtr take();

    // Gives a packet its times.
    static void put(AVPacket& packet, std::int64_t place, std::int64_t samples);

  private:
    struct Queued {
        PacketPtr packet;
        std::uint64_t name = 0;            // As the index has it.
        std::optional<std::int64_t> time;  // As the file says, in samples.
        std::int64_t samples = 0;          // As the decoder makes of it, before any are left out,
        std::int64_t begin = 0;            // and how many are left out at the beginning,
        std::int64_t end = 0;              // and at the end.
    };

    [[nodiscard]] std::int64_t first_place() const;
    [[nodiscard]] std::int64_t place();
    [[nodiscard]] bool sees_enough() const;
    [[nodiscard]] bool agrees(std::int64_t time, std::int64_t place) const;
    [[nodiscard]] bool is_taken_back(std::int64_t place) const;

    std::shared_ptr<const Stream> counted_;
    AVRational unit_;  // That of the file's times.
    bool timed_;
    std::int64_t period_;
    std::int64_t allowed_;  // The samples by which a time may be off.
    PacketSamples samples_;
    SoundIndex* index_;
    std::deque<Queued> queue_;
    std::int64_t offset_ = 0;           // What the file's times lack since they went back.
    std::optional<std::int64_t> next_;  // The sample that follows those of the packets so far.
    int usual_ = 0;                     // The samples of the last packet that told them.
    std::int64_t ahead_ = 0;            // The samples of the packets in the queue.
    bool ended_ = false;
};

// Sound that comes in frames of any length, and is taken out in frames of another. All of one form. The times are those
// of the samples: a gap between frames is found again between those taken out, but not within one.
class SampleQueue {
  public:
    // The time of the frame is in samples.
    void add(FramePtr frame);

    [[nodiscard]] std::int64_t size() const { return size_; }

    // Takes out that many samples, which must be there.
    FramePtr take(int count);

  private:
    std::deque<FramePtr> frames_;
    int used_ = 0;  // Samples of the first frame that were taken.
    std::int64_t size_ = 0;
};

}  // namespace spdl
