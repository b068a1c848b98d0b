#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "av/container.h"
#include "av/packets.h"
#include "av/samples.h"
#include "core/buffer.h"
#include "core/files.h"
#include "ffmpeg/libav.h"
#include "media/options.h"

namespace spdl {

// Keeps decoded sound in memory that the system gets back piece by piece: copying the sounds to one array, and dropping
// them on the way, never needs all of them twice. Any number of threads may use it at once.
class SoundStore {
  public:
    // Samples of 32-bit floats, one channel after the other.
    struct Piece {
        std::shared_ptr<const std::uint8_t> data;
        std::size_t samples = 0;
    };

    // Copies frames of as many channels to a piece.
    Piece keep(const std::vector<FramePtr>& frames, std::size_t channels);

    // The bytes that a piece should not exceed: the system gives memory in blocks that divide this size.
    static constexpr std::size_t kPieceBytes = std::size_t{2} << 20;

  private:
    std::shared_ptr<std::uint8_t> take(std::size_t bytes);

    std::mutex mutex_;
    std::shared_ptr<AlignedBuffer> shared_;  // Where small pieces lie side by side.
    std::size_t used_ = 0;
};

// The extent of a stream's sound on its time line, in samples of one channel.
struct SoundExtent {
    std::int64_t start = 0;    // The place of the first sample, which is 0 at time 0.
    std::int64_t samples = 0;  // Up to the last one, gaps included.
    int rate = 0;
};

// Reads all packets of an audio stream, and decodes the first and the last ones: packets and containers do not say to
// the sample how long the sound is.
SoundExtent measure_sound(Container& container, int index, const DecodeOptions& options);

// Returns a source that ends where the sound ends, if something else lies after it that FFmpeg would take for sound, or
// for damaged sound: tags (ID3, APE, Lyrics3, also several) after the frames of an MP3 or another file without a size,
// the rest of an AU file that gives the sound's size, and the chunks of a WAV file without sound. It leaves out tags
// and headers between the frames of joined files. For RF64 and BW64 it supplies the size that a program writing to a
// pipe could not know. Other sources are returned unchanged. The source is then at its beginning.
std::unique_ptr<ByteSource> front_with_sound(std::unique_ptr<ByteSource> source);

// Reads the packets that it takes to decode a window of sound, with times exact to the sample: decoding a window gives
// that part of the whole. Containers whose times are exact are read from where the window begins. In others the packets
// before are looked at, too, but not decoded, unless only the decoder knows how many samples they have.
class SoundFeed {
  public:
    // The container must live as long as the feed. No other code may use it in the meantime.
    SoundFeed(Container& container, int index, const TimeWindow& window);

    // Returns what is known of the stream, with the unit of the packets' times.
    [[nodiscard]] const std::shared_ptr<const Stream>& stream() const { return stream_; }

    // Returns the next packet; null after the last one of the window.
    PacketPtr next();

  private:
    PacketPtr read();
    PacketPtr take();
    PacketPtr take_known();
    [[nodiscard]] SoundIndex& known() { return container_.sound_index(index_); }
    void begin();
    bool seek(std::size_t wanted);
    bool seek_from(std::size_t near, std::size_t wanted);
    [[nodiscard]] bool is_before(const AVPacket& packet) const;

    Container& container_;
    int index_;
    TimeWindow window_;
    std::shared_ptr<const Stream> stream_;
    std::optional<SampleClock> clock_;  // Nothing if the container's times are taken.
    std::optional<std::size_t> known_;  // The next packet, if it is in the container's index.
    LastPackets before_;                // What precedes the window.
    PacketPtr first_;                   // The first packet that does not.
    std::exception_ptr failure_;        // What reading ahead has met.
};

// Returns all packets of the feed of a window.
PacketList demux_sound(Container& container, int index, const TimeWindow& window);

}  // namespace spdl
