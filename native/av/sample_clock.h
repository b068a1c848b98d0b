#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "av/stream.h"
#include "ffmpeg/libav.h"

namespace spdl {

// Tells the place of decoded sound on the time line of its stream, to the sample. The times of many containers are
// rounded: to milliseconds in Matroska, to 1/90000 s in MPEG-TS. Frames that follow each other say more, and so does
// the number of samples in a packet: frames lie on a grid that begins with the stream.
class SampleClock {
  public:
    explicit SampleClock(std::shared_ptr<const Stream> stream) : stream_(std::move(stream)) {}

    // Takes note of the next packet that is decoded.
    void see(const AVPacket& packet);

    // Returns where the next frame begins, in samples of its own rate from time 0.
    std::int64_t place(const AVFrame& frame);

    // Forgets everything, for packets from another place.
    void reset();

    // Returns by how much the time of a packet may be wrong, in units of the stream's time base.
    static std::int64_t slack(const Stream& stream);

    // Returns whether places that are found from `packet` on are those that are found from the beginning on.
    static bool begins_anywhere(const Stream& stream, const AVPacket& packet);

  private:
    [[nodiscard]] std::int64_t on_grid(std::int64_t place, const AVFrame& frame) const;

    std::shared_ptr<const Stream> stream_;
    int grid_ = 0;  // The samples of each packet; 0 if they differ.
    bool seen_ = false;
    int rate_ = 0;
    std::optional<std::int64_t> next_;
};

}  // namespace spdl
