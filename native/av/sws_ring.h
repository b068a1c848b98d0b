#pragma once

#include <cstddef>
#include <cstdint>

#include "av/scaling_weights.h"
#include "av/sws_rows.h"
#include "ffmpeg/libav.h"

namespace spdl {

// The rows that the first pass of a SwsScaler has made of a plane, or of two that are alike: as many as the second pass
// needs at once.
class SwsRing {
  public:
    // For the columns from `left` to `right` of the result. All but the frame's samples must live as long as the ring,
    // and `memory` has room for size().
    SwsRing(const AVFrame& frame, int first_plane, int num_planes, const SwsRowWeights& across,
            const ScalingWeights& down, int left, int right, std::int16_t* memory);

    static std::size_t size(int num_planes, const ScalingWeights& down, int left, int right);

    // Makes what a row of the result needs, and puts the rows in the order of their weights into `rows`, those of the
    // second plane behind the others. Rows of the result come from top to bottom.
    void prepare(int y, const std::int16_t** rows);

    // Returns the weights of a row of the result.
    [[nodiscard]] const std::int16_t* weights(int y) const {
        return down_.weights.data() + static_cast<std::ptrdiff_t>(y) * down_.taps;
    }

  private:
    [[nodiscard]] std::int16_t* row(int plane, int index) const {
        return memory_ + static_cast<std::size_t>(plane * down_.taps + index % down_.taps) * length_;
    }

    const AVFrame& frame_;
    int first_plane_;
    int num_planes_;
    const SwsRowWeights& across_;
    const ScalingWeights& down_;
    int begin_;  // A multiple of kSwsGroup.
    int left_;
    int right_;
    std::size_t length_;
    std::int16_t* memory_;
    int next_ = 0;
};

}  // namespace spdl
