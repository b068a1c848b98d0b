#pragma once

#include <cstddef>
#include <cstdint>

#include "image/resize/resample_table.h"

namespace spdl {

// The weights of one output, one after the other, with fewer bits of fraction. It rounds the sum of the weights so far.
// So all weights together are still 1, and even areas stay as they are. Behind the last weight come zeros.
class RoundedWeights {
  public:
    RoundedWeights(const ResampleTable& table, std::size_t output, int bits)
        : weights_(table.weights.data() + output * table.stride),
          taps_(table.taps[output]),
          shift_(ResampleTable::kFractionBits - bits) {}

    std::int32_t next() {
        if (tap_ < taps_) {
            sum_ += weights_[tap_++];
        }
        const std::int32_t rounded = (sum_ + (1 << (shift_ - 1))) >> shift_;
        const std::int32_t weight = rounded - given_;
        given_ = rounded;
        return weight;
    }

    // The next two, as the 16-bit halves of an integer, the first one the lower.
    std::int32_t pair() {
        constexpr std::uint32_t kHalf = 0xffff;
        const auto left = static_cast<std::uint32_t>(next());
        return static_cast<std::int32_t>((left & kHalf) | static_cast<std::uint32_t>(next()) << 16U);
    }

  private:
    const std::int32_t* weights_;
    int taps_;
    int shift_;
    int tap_ = 0;
    std::int32_t sum_ = 0;
    std::int32_t given_ = 0;
};

}  // namespace spdl
