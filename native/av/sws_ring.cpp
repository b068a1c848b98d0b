#include "av/sws_ring.h"

#include <algorithm>

namespace spdl {
namespace {

int group_begin(int left) {
    return left / kSwsGroup * kSwsGroup;
}

std::size_t row_length(int left, int right) {
    return static_cast<std::size_t>(right - group_begin(left)) + kSwsRowSlack;
}

}  // namespace

SwsRing::SwsRing(const AVFrame& frame, int first_plane, int num_planes, const SwsRowWeights& across,
                 const ScalingWeights& down, int left, int right, std::int16_t* memory)
    : frame_(frame),
      first_plane_(first_plane),
      num_planes_(num_planes),
      across_(across),
      down_(down),
      begin_(group_begin(left)),
      left_(left),
      right_(right),
      length_(row_length(left, right)),
      memory_(memory) {}

std::size_t SwsRing::size(int num_planes, const ScalingWeights& down, int left, int right) {
    return static_cast<std::size_t>(num_planes * down.taps) * row_length(left, right);
}

void SwsRing::prepare(int y, const std::int16_t** rows) {
    constexpr int kTogether = 4;
    const std::uint8_t* from[kTogether];
    std::int16_t* to[kTogether];
    int count = 0;
    const int first = down_.first[static_cast<std::size_t>(y)];
    for (next_ = std::max(next_, first); next_ < first + down_.taps; ++next_) {
        for (int i = 0; i < num_planes_; ++i) {
            const int plane = first_plane_ + i;
            from[count] = frame_.data[plane] + static_cast<std::ptrdiff_t>(next_) * frame_.linesize[plane];
            to[count++] = row(i, next_);
        }
        if (count == kTogether || next_ + 1 == first + down_.taps) {
            sws_kernels()->scale(across_, from, to, count, begin_, right_);
            count = 0;
        }
    }
    for (int i = 0; i < num_planes_; ++i) {
        for (int tap = 0; tap < down_.taps; ++tap) {
            *rows++ = row(i, first + tap) + (left_ - begin_);
        }
    }
}

}  // namespace spdl
