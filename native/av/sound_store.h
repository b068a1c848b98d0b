#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "core/aligned_buffer.h"
#include "ffmpeg/libav.h"

namespace spdl {

// Keeps decoded sound in memory that the system gets back piece by piece: whoever copies the sounds to one array, and
// drops them on the way, never has all of them twice. Any number of threads may use it at once.
class SoundStore {
  public:
    // Samples of 32-bit floats, one channel after the other.
    struct Piece {
        std::shared_ptr<const std::uint8_t> data;
        std::size_t samples = 0;
    };

    // Copies frames of as many channels to a piece.
    Piece keep(const std::vector<FramePtr>& frames, std::size_t channels);

    // The bytes that a piece should not exceed: the system gives memory in blocks of which this is a multiple.
    static constexpr std::size_t kPieceBytes = std::size_t{2} << 20;

  private:
    std::shared_ptr<std::uint8_t> take(std::size_t bytes);

    std::mutex mutex_;
    std::shared_ptr<AlignedBuffer> shared_;  // Where small pieces lie side by side.
    std::size_t used_ = 0;
};

}  // namespace spdl
