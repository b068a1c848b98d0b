#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "core/bytes.h"
#include "ffmpeg/libav.h"

namespace spdl {

// Follows the numbers that reference pictures of H.264 have, to find out that one is missing: ITU-T H.264, 7.4.3
// (frame_num) and 8.2.5.2. What cannot be read, or may have another reason, counts as nothing missing.
class H264FrameNumbers {
  public:
    explicit H264FrameNumbers(const AVCodecParameters& video);

    // Takes the next packet in the order of decoding, and returns whether a picture is missing before it that others
    // build on.
    bool misses_one(const AVPacket& packet);

    // Returns whether all pictures are shown in the order in which they are decoded, as far as the stream's header
    // says.
    [[nodiscard]] bool shows_in_order() const;

    // Says that the next packet is from another place.
    void reset() { last_.reset(); }

  private:
    struct Sequence {
        int number_bits = 0;
        bool separate_planes = false;
        bool may_have_gaps = false;
        bool in_order = false;
    };

    void read_parameters(Bytes extra);
    void read_unit(Bytes unit);
    bool read_slice(Bytes unit);

    const AVCodecParameters& video_;
    std::map<unsigned, Sequence> sequences_;
    std::map<unsigned, unsigned> pictures_;  // The sequence that each picture parameter set belongs to.
    std::optional<unsigned> last_;           // The number of the last reference picture.
};

}  // namespace spdl
