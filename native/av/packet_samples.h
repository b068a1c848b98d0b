#pragma once

#include <memory>
#include <optional>

#include "av/stream.h"
#include "ffmpeg/libav.h"

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

// Returns whether sound has to be counted from its beginning, as the times of its frames cannot be relied on: those of
// ADPCM, say, and all whose unit does not divide the duration of a sample.
bool is_counted(const Stream& stream);

// Returns whether the unit of the stream's times divides the duration of a sample, so that times are exact. Matroska
// counts in milliseconds.
bool times_are_exact(const Stream& stream);

}  // namespace spdl
